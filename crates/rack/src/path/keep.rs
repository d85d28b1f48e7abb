//! An emulator that stays: the background process on the router of a kept rack.

use super::{Plan, Report, run};
use crate::Error;
use crate::standing::{Holder, failed};
use net::ns;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::AtomicBool;

/// An order to the role.
#[derive(Serialize, Deserialize)]
struct Order {
    plan: Plan,
    /// Where it writes what the paths did.
    report: PathBuf,
}

/// An emulator that has begun, and ends with us unless it is told to stay.
pub(crate) struct Emulator {
    child: Child,
    to: ChildStdin,
    process: Holder,
}

/// Starts this program again as emulator (see [`emulate`]), in a router's namespaces, and waits for its word.
pub(crate) fn start(mut entry: ns::Entry, rack: &str, plan: &Plan, report: &Path) -> Result<Emulator, Error> {
    let doing = "start the emulator of its paths";
    let mut command = Command::new("/proc/self/exe");
    command.args(["rack", "emulate"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.current_dir("/");
    entry.session = true;
    ns::prepare(&mut command, entry).map_err(failed(rack, doing))?;
    let mut child = command.spawn().map_err(failed(rack, doing))?;
    let (mut to, from) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
    let order = Order { plan: plan.clone(), report: report.into() };
    let text = serde_json::to_string(&order).expect("an order is plain data");
    let mut line = String::new();
    let word = writeln!(to, "{text}").and_then(|()| BufReader::new(from).read_line(&mut line));
    let answer = word.map_err(failed(rack, doing)).and_then(|_| {
        serde_json::from_str::<Result<(), String>>(&line)
            .map_err(|_| {
                Error::Holder(format!("rack {rack}: the emulator of its paths ended without a word"))
            })?
            .map_err(Error::Holder)
    });
    match answer.and_then(|()| Holder::of(child.id()).map_err(failed(rack, doing))) {
        Ok(process) => Ok(Emulator { child, to, process }),
        Err(error) => {
            let _ = child.kill();
            let _ = child.wait();
            Err(error)
        }
    }
}

impl Emulator {
    /// Its process.
    pub(crate) fn process(&self) -> Holder {
        self.process
    }

    /// Has it stay when we end.
    pub(crate) fn keep(mut self, rack: &str) -> Result<(), Error> {
        let written = writeln!(self.to, "kept");
        written.map_err(|e| {
            let _ = self.child.kill();
            let _ = self.child.wait();
            failed(rack, "talk with the emulator of its paths")(e)
        })
    }
}

/// The emulator's whole life (the program's hidden command `rack emulate`): reads its order, opens the paths, tells how
/// that went, and works until it is killed. It ends if who started it does before saying that it is to stay.
///
/// # Errors
/// [`Error::Holder`] without an order; later errors go to the process that started it.
pub fn emulate() -> Result<(), Error> {
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    let order = read.ok().and_then(|_| serde_json::from_str::<Order>(&line).ok());
    let order = order.ok_or_else(|| Error::Holder("rack emulate: no order on standard input".into()))?;
    let say = |word: &Result<(), String>| {
        let text = serde_json::to_string(word).expect("plain data");
        let mut out = io::stdout().lock();
        let _ = writeln!(out, "{text}").and_then(|()| out.flush());
    };
    let ready = || {
        say(&Ok(()));
        std::thread::spawn(|| {
            let mut kept = String::new();
            if !matches!(io::stdin().lock().read_line(&mut kept), Ok(1..)) {
                std::process::exit(0);
            }
        });
    };
    let never = AtomicBool::new(false);
    let result = run(&order.plan, ready, &never, &mut |_, report| write(report, &order.report));
    // Where it fails later nobody hears this, and `rack list` tells that it is gone.
    say(&result.map(drop).map_err(|e| e.to_string()));
    Ok(())
}

/// Writes the report of this second. An error is ignored, as the report of the next second replaces this one.
fn write(report: &Report, to: &Path) {
    let text = serde_json::to_string(report).expect("a report is plain data");
    let _ = measure::aside::write(to, text);
}
