//! A start is a start, whatever is measured after it: the time that it takes is one figure of all cells on a zone.

use super::figures::FIGURES;
use super::{Cell, Params, Trials, compare_trials, pairs, values};
use measure::{Parameter, params};

const START: &str = measure::metrics::SERVER_READY.stem();

/// Measures before which a server starts in the same way, with nothing to do meanwhile.
const MEASURES: [&str; 4] = ["latency", "throughput", "peak", "memory"];

/// The parameters that a start depends on.
const ZONE: [Parameter; 4] = [params::SERVER, params::FAMILY, params::ZONE_SIZE, params::SIGNED];

/// Takes the start out of cells that share zone and servers, and puts it into one of its own, with the repeats of all.
pub(super) fn pool(cells: &mut Vec<Cell>, a: &[(Params, Trials)], b: &[(Params, Trials)], interleaved: bool) {
    let figure = FIGURES.iter().find(|f| f.name == START).expect("it is one of them");
    let mut zones: Vec<Params> = Vec::new();
    for cell in cells.iter().filter(|c| has_start(c)) {
        let zone = zone(&cell.params);
        if !zones.contains(&zone) {
            zones.push(zone);
        }
    }
    for at in zones {
        let on_zone = |c: &&mut Cell| has_start(c) && zone(&c.params) == at;
        let members: Vec<&mut Cell> = cells.iter_mut().filter(on_zone).collect();
        if members.len() < 2 {
            continue;
        }
        let (mut of_a, mut of_b, mut paired) = (Vec::new(), Vec::new(), Vec::new());
        let (mut trials, mut numbers) = ([0, 0], Vec::new());
        for cell in members {
            cell.figures.retain(|f| f.name != START);
            numbers.extend_from_slice(&cell.trials);
            let here = |(params, _): &&(Params, Trials<'_>)| *params == cell.params;
            let (Some((_, in_a)), Some((_, in_b))) = (a.iter().find(here), b.iter().find(here)) else {
                continue;
            };
            trials = [trials[0] + in_a.len(), trials[1] + in_b.len()];
            let (in_a, in_b) = (values(figure, in_a), values(figure, in_b));
            paired.extend(pairs(&in_a, &in_b));
            of_a.extend(in_a);
            of_b.extend(in_b);
        }
        let compared = compare_trials(figure, trials, [&of_a, &of_b], interleaved.then_some(paired));
        cells.push(Cell { params: at, figures: vec![compared], trials: numbers });
    }
}

/// Whether a cell has a start that is like those of others: of a server alone, which nothing is asked of meanwhile.
fn has_start(cell: &Cell) -> bool {
    let measure = cell.params.get(params::MEASURE.name()).map(String::as_str);
    measure.is_some_and(|m| MEASURES.contains(&m))
        && !cell.params.contains_key(params::SECONDARIES.name())
        && cell.figures.iter().any(|f| f.name == START)
}

fn zone(params: &Params) -> Params {
    params
        .iter()
        .filter(|(name, _)| ZONE.iter().any(|p| p.is(name)))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect()
}
