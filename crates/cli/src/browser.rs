//! Pictures of pages by a browser without a window: Chromium, where it is installed.

use crate::output::{self, Failure};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Names under which distributions install it.
const PROGRAMS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"];

/// No picture takes longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// The form of a picture of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Picture {
    /// A sheet of A4, with two dots for each pixel of the screen.
    Png,
    /// A document of A4 sheets.
    Pdf,
}

/// The picture of a page, as the bytes of its file. Ctrl-C ends the browser, too.
pub fn draw(html: &str, picture: Picture) -> Result<Vec<u8>, Failure> {
    let program = PROGRAMS.into_iter().find(|program| is_installed(program)).ok_or_else(|| Failure {
        code: 1,
        message: format!(
            "a browser draws this format, and none is installed ({}): install 'chromium', or take --format md",
            PROGRAMS.join(", ")
        ),
    })?;
    let folder = tempfile::tempdir()?;
    // The name's ending says to the browser which form it takes.
    let drawn = match picture {
        Picture::Png => "drawn.png",
        Picture::Pdf => "drawn.pdf",
    };
    let (page, drawn) = (folder.path().join("page.html"), folder.path().join(drawn));
    std::fs::write(&page, html)?;
    let stop = output::stop_flag()?;
    let mut command = contained(program)?;
    command.args(["--headless", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]);
    command.arg(format!("--user-data-dir={}", folder.path().join("profile").display()));
    // Its sandbox does not work for root; it shows one page of our own, which loads nothing.
    if rustix::process::geteuid().is_root() {
        command.arg("--no-sandbox");
    }
    match picture {
        Picture::Png => command
            .args(["--window-size=794,1123", "--force-device-scale-factor=2"])
            .arg(format!("--screenshot={}", drawn.display())),
        Picture::Pdf => {
            command.arg("--no-pdf-header-footer").arg(format!("--print-to-pdf={}", drawn.display()))
        }
    };
    command
        .arg(&page)
        .env("TMPDIR", folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let failed =
        |why: String| Failure { code: 1, message: format!("{program} did not draw the page: {why}") };
    let mut browser = command.spawn().map_err(|e| failed(e.to_string()))?;
    let began = Instant::now();
    let status = loop {
        if let Some(status) = browser.try_wait()? {
            break status;
        }
        let stopped = stop.load(Ordering::Relaxed);
        if stopped || began.elapsed() > PATIENCE {
            browser.kill()?;
            // To the end of its output, which all its processes hold open: none of them writes into the folder after that.
            browser.wait_with_output()?;
            return Err(failed(match stopped {
                true => "it was interrupted".to_owned(),
                false => format!("it took longer than {} s", PATIENCE.as_secs()),
            }));
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    // Its exit status does not always say so.
    std::fs::read(&drawn).map_err(|_| failed(status.to_string()))
}

/// A command for a program whose processes all end with it: in a PID namespace of its own, as Chromium's helpers have sessions of their own
/// and would go on. Where the machine allows no such namespace, the program as it is.
fn contained(program: &str) -> Result<Command, Failure> {
    let mut namespaces = vec!["--pid", "--fork", "--kill-child", "--mount-proc"];
    if !rustix::process::geteuid().is_root() {
        namespaces.extend(["--user", "--map-current-user"]);
    }
    let unshare = |program: &str| {
        let mut command = Command::new("unshare");
        command.args(&namespaces).arg(program);
        command
    };
    let allowed = unshare("true").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let mut command = match allowed.is_ok_and(|status| status.success()) {
        true => unshare(program),
        false => Command::new(program),
    };
    // Ctrl-C reaches us alone, and nothing is left when we are killed.
    net::ns::prepare(
        &mut command,
        net::ns::Entry { session: true, die_with_parent: true, ..Default::default() },
    )?;
    Ok(command)
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| is_program(&folder.join(program)))
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}
