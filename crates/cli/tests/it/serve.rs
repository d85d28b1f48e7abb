//! Pages in a real browser (chromium, driven by its WebDriver): they load without a word on the console, and a run is followed while
//! it goes on.

use crate::{TINY, dnsrack, has, write};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// `dnsrack serve`, ended when dropped.
struct Pages {
    child: Child,
    /// Without a slash at its end.
    address: String,
}

impl Pages {
    fn of(dir: &Path) -> Self {
        let dir = dir.to_str().expect("a path");
        let mut child = dnsrack(&["--json", "serve", dir, "--port", "0"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("its address");
        let said: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
        let page = said["page"].as_str().unwrap_or_else(|| panic!("{said}"));
        Self { child, address: page.trim_end_matches('/').to_owned() }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// A browser, closed when dropped.
struct Browser {
    driver: Child,
    port: u16,
    session: String,
}

impl Browser {
    fn open() -> Self {
        let mut driver = std::process::Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver");
        let lines = BufReader::new(driver.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
        let port =
            |line: String| line.split_once("successfully on port ")?.1.trim_end_matches('.').parse().ok();
        let port = lines.into_iter().find_map(port).expect("its port");
        let mut browser = Self { driver, port, session: String::new() };
        let options =
            json!({ "args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,900"] });
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "goog:chromeOptions": options, "goog:loggingPrefs": { "browser": "ALL" },
        } } });
        let made = browser.ask("POST", "", &wanted);
        browser.session = format!("/{}", made["sessionId"].as_str().unwrap_or_else(|| panic!("{made}")));
        browser
    }

    /// A command of WebDriver; its value.
    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.say(method, path, body).unwrap_or_else(|e| panic!("{path}: {e}"));
        assert!(answer["value"]["error"].is_null(), "{path}: {answer}");
        answer["value"].clone()
    }

    /// A command of WebDriver; its answer.
    fn say(&self, method: &str, path: &str, body: &Value) -> std::io::Result<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let body = if method == "GET" { String::new() } else { body.to_string() };
        let head = format!(
            "{method} /session{}{path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            self.session,
            self.port,
            body.len()
        );
        stream.write_all((head + &body).as_bytes())?;
        let mut stream = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            stream.read_line(&mut line)?;
            if line.trim().is_empty() {
                break;
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().expect("a length");
            }
        }
        let mut answer = vec![0; length];
        stream.read_exact(&mut answer)?;
        Ok(serde_json::from_slice(&answer)?)
    }

    fn go(&self, address: &str) {
        self.ask("POST", "/url", &json!({ "url": address }));
    }

    /// What a script gives.
    fn run(&self, script: &str) -> Value {
        self.ask("POST", "/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Waits until a script gives true.
    fn wait(&self, what: &str) {
        let until = Instant::now() + Duration::from_secs(60);
        while self.run(&format!("return {what}")) != json!(true) {
            assert!(Instant::now() < until, "{what}: {}", self.run("return document.body.innerText"));
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Errors and warnings on the console since the last time.
    fn assert_silent(&self, page: &str) {
        let log = self.ask("POST", "/se/log", &json!({ "type": "browser" }));
        let all = log.as_array().unwrap_or_else(|| panic!("{log}"));
        assert!(
            all.iter().all(|entry| entry["level"] == "INFO" || entry["level"] == "DEBUG"),
            "{page}: {log}"
        );
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Chromium does not end with its driver.
        let _ = self.say("DELETE", "", &json!({}));
        let _ = self.driver.kill().and_then(|()| self.driver.wait());
    }
}

#[test]
fn a_browser_shows_all_pages_and_follows_a_run() {
    if !(has("chromium") && has("chromedriver") && has("nsd")) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let experiment = write(&folder, "tiny.toml", TINY);
    let runs = folder.path().join("runs");
    let begin = |name: &str, repeats: &str| {
        let dir = runs.join(name);
        dnsrack(&["experiment", "run", &experiment, "--set", repeats, "-o", dir.to_str().expect("a path")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts")
    };
    let mut first = begin("first", "repeats=2");
    assert!(matches!(first.wait().expect("it ends").code(), Some(0 | 3)));
    let (pages, browser) = (Pages::of(&runs), Browser::open());
    // Each page as a user comes to it, with its plots, and nothing on the console.
    browser.go(&pages.address);
    browser.wait("document.querySelector('#runs tbody tr th').textContent == 'first'");
    browser.run("const f = document.querySelector('[data-filter]'); f.value = 'nobody'; f.dispatchEvent(new Event('input'))");
    browser.wait("document.querySelector('#runs tbody tr').hidden");
    browser.assert_silent("runs");
    for (path, there) in [
        ("/run?name=first", "document.querySelectorAll('#report figure svg').length > 0"),
        // On a restless machine all trials may be invalid, and the page says so.
        (
            "/history",
            "document.querySelectorAll('.history tbody tr').length == 1 \
             || document.body.innerText.includes('No run has a valid trial with this figure')",
        ),
        ("/compare?a=first&b=first&base=nsd&candidate=nsd", "document.querySelector('.problem') != null"),
    ] {
        browser.go(&format!("{}{path}", pages.address));
        browser.wait(there);
        // The style is the server's, and the policy lets it pass.
        browser.wait("getComputedStyle(document.querySelector('nav.pages')).position == 'sticky'");
        browser.assert_silent(path);
    }
    // A run that goes on.
    let mut second = begin("second", "repeats=5");
    let until = Instant::now() + Duration::from_secs(60);
    while !runs.join("second/progress.json").exists() {
        assert!(
            Instant::now() < until && second.try_wait().expect("it runs").is_none(),
            "it tells its progress"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    browser.wait("true");
    std::thread::sleep(Duration::from_millis(1100));
    browser.go(&format!("{}/run?name=second", pages.address));
    browser.wait("document.querySelector('#live progress').max == 5");
    let done = "(document.querySelector('#live progress') || {}).value";
    let before = browser.run(&format!("return {done}")).as_f64().expect("trials");
    browser.run("window.same = true");
    browser.wait(&format!("{done} > {before}"));
    // The report follows, in the same page.
    browser.wait(&format!("document.querySelectorAll('#report .appendix tbody tr').length > {before}"));
    browser.wait("window.same == true");
    // So does a page that is loaded again.
    browser.ask("POST", "/refresh", &json!({}));
    browser.wait("document.getElementById('live') != null && window.same != true");
    browser.run("window.same = true");
    assert!(matches!(second.wait().expect("it ends").code(), Some(0 | 3)));
    browser.wait("document.getElementById('live') == null && window.same == true");
    browser.wait("document.querySelectorAll('#report .appendix tbody tr').length == 5");
    browser.assert_silent("a run that goes on");
    // Two runs have a history, and its plot has a legend. These are kept runs of two cells, whose trials are valid on any machine.
    let two = folder.path().join("kept");
    std::fs::create_dir(&two).expect("a folder");
    for name in ["isc-updates", "isc-updates-repeated"] {
        let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/runs").join(name);
        assert!(Command::new("cp").arg("-r").args([&kept, &two]).status().expect("cp runs").success());
    }
    let kept = Pages::of(&two);
    browser.go(&format!("{}/history?figure=server_ready&server=bind", kept.address));
    browser.wait("document.querySelectorAll('.history tbody tr').length == 4");
    browser.wait("document.querySelectorAll('.history svg').length == 4");
    browser.assert_silent("a history");
}
