//! Durability by hand:
//!
//! ```text
//! durable run TRACE PROGRAM [ARGUMENT...]     a server under strace, until it ends
//! durable analyse TRACE FOLDER...               what the trace says of updates to data in these folders, as JSON
//! durable calibrate FOLDER SECONDS THREADS    the disk's own syncs a second
//! durable disk BACKING AT [SEED]              a disk: Enter cuts its power, again mounts it again; end of input ends it
//! ```

use rack::disk::{Disk, Options};
use rack::syncs::{self, Scope};
use rack::{Cmd, Host, Launcher, Local, Output};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match &words[..] {
        ["run", trace, program, arguments @ ..] => {
            let trace = Path::new(trace);
            let cmd = Cmd::new(program).args(arguments.iter().copied());
            let cmd = syncs::traced(&cmd.stdout(Output::Inherit).stderr(Output::Inherit), trace);
            let mut process = Local.spawn(&Host::loopback(), &cmd)?;
            while process.wait_timeout(Duration::from_secs(3600))?.is_none() {}
            syncs::settle(trace, Duration::from_secs(60))?;
        }
        ["analyse", trace, folders @ ..] => {
            let folders = folders.iter().map(|f| Path::new(f).canonicalize()).collect::<Result<_, _>>()?;
            let scope = Scope { folders, except: Vec::new() };
            let report = syncs::analyse(Path::new(trace), &scope, |_| ())?;
            println!("{}", serde_json::to_string_pretty(&report)?);
        }
        ["calibrate", folder, seconds, threads] => {
            let duration = Duration::try_from_secs_f64(seconds.parse()?)?;
            let disk =
                syncs::calibrate(Path::new(folder), syncs::Way::Fdatasync, duration, threads.parse()?)?;
            let [p50, p99] = [0.5, 0.99].map(|q| disk.latency.quantile(q) / 1000);
            println!("{} threads: {:.0} syncs/s, p50 {p50} µs, p99 {p99} µs", disk.threads, disk.rate());
        }
        ["disk", backing, at, seed @ ..] => {
            let survivors = seed.first().map(|seed| seed.parse().map(measure::Seed)).transpose()?;
            let options = Options { survivors, ..Options::default() };
            let mut disk = Disk::mount(&PathBuf::from(backing), Path::new(at), options)?;
            let mut line = String::new();
            let mut on = true;
            while std::io::stdin().read_line(&mut line)? > 0 {
                if on {
                    println!("{:?}", disk.cut()?)
                } else {
                    disk.remount()?
                }
                on = !on;
            }
            disk.unmount()?;
        }
        _ => return Err("durable run | analyse | calibrate | disk: see the example's source".into()),
    }
    Ok(())
}
