//! The disk: a block of 4 KiB with a sync after it, in each of the ways in which servers sync, and a long write.

use crate::{Bench, Measured, Point};
use measure::metrics::{BANDWIDTH, OPERATION_TIME};
use rack::syncs::{Way, calibrate};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// For how long each way is measured.
const TIME: Duration = Duration::from_millis(300);

/// Octets of the long write.
const LONG: usize = 64 << 20;

/// On the disk of the folder, by one thread.
pub(crate) fn syncs(bench: &Bench<'_>) -> Measured {
    let mut measured = Measured::default();
    let folder = &bench.options.folder;
    for way in Way::ALL {
        match calibrate(folder, way, TIME, 1) {
            Ok(disk) if disk.in_memory => {
                let why = format!(
                    "the disk: {} is in memory: name a folder on a disk with --folder",
                    folder.display()
                );
                measured.left_out.push(why);
                return measured;
            }
            Ok(disk) => {
                let case = format!("a write of 4 KiB with {}", way.name());
                measured.points.push(Point::new(case, OPERATION_TIME, 1e9 / disk.rate()));
            }
            Err(why) => measured.left_out.push(format!("{}: {why}", way.name())),
        }
    }
    match written(folder) {
        Ok(rate) => measured
            .points
            .push(Point::new("a write with one fdatasync at its end", BANDWIDTH, rate).of(LONG as u64)),
        Err(why) => measured.left_out.push(format!("a long write: {}: {why}", folder.display())),
    }
    measured
}

/// Megaoctets per second.
fn written(folder: &Path) -> std::io::Result<f64> {
    let mut file = tempfile::tempfile_in(folder)?;
    let block = vec![7; 1 << 20];
    let began = Instant::now();
    for _ in 0..LONG / block.len() {
        file.write_all(&block)?;
    }
    file.sync_data()?;
    Ok(LONG as f64 / began.elapsed().as_secs_f64() / 1e6)
}
