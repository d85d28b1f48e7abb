//! Web pages over folders of run directories: all runs, one run (also while it goes), the history of a figure over runs, and the
//! comparison of two runs.
//!
//! | path | page |
//! |---|---|
//! | `/` | all runs |
//! | `/run?name=` | one run: its report, and what it does while it goes on |
//! | `/run/events?name=` | the same as server-sent events |
//! | `/history?experiment=&figure=&server=` | a figure over runs, with the changes that are certain |
//! | `/compare?a=&b=` | two runs, as `dnsrack compare` compares them |
//!
//! Each page's data is at its path with `.json` or `.csv` (`/runs.json` is that of all runs). Pages take nothing from other hosts, have no
//! inline script and no inline style, and say so in their content security policy. They change nothing: there is GET alone.
//!
//! On a loopback address the `Host` of a request must be one of this machine's names for it, so that no page of another site reads these by a
//! name of its own (DNS rebinding). On any other address a token is needed, which is made anew each time.
//!
//! [`Exporter`] serves the figures of one load, while it runs, to Prometheus.

mod error;
mod exporter;
mod form;
mod guard;
mod live;
mod pages;
mod store;

pub use error::Error;
pub use exporter::Exporter;

use axum::Router;
use axum::extract::{Query, State};
use axum::response::Response;
use axum::routing::get;
use form::Form;
use futures_util::FutureExt;
use guard::Guard;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use store::Store;

/// What is served, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// Folders of run directories, and run directories.
    pub dirs: Vec<PathBuf>,
    /// The address and port to listen on; port 0: any that is free.
    pub at: SocketAddr,
    /// `at` may be an address that other machines reach; a token is needed then.
    pub allow_external: bool,
}

/// How long connections may take to end once it is told to stop.
const PATIENCE: Duration = Duration::from_secs(2);

/// What all requests share.
#[derive(Clone)]
struct Shared {
    store: Arc<Store>,
    stop: Arc<AtomicBool>,
}

/// Serves pages until `stop` is set. `ready` is told the address of the first page, once it can be asked for, with its token where one is
/// needed.
///
/// # Errors
/// [`Error::External`] for an address that is no loopback one and is not allowed; [`Error::Listen`]; a folder that cannot be read.
pub fn serve(options: &Options, ready: impl FnOnce(&str), stop: &Arc<AtomicBool>) -> Result<(), Error> {
    if !options.at.ip().is_loopback() && !options.allow_external {
        return Err(Error::External { at: options.at });
    }
    let store = Arc::new(Store::new(&options.dirs)?);
    let failed = |source| Error::Listen { at: options.at, source };
    let runtime = runtime().map_err(failed)?;
    let served = runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(options.at).await?;
        let at = listener.local_addr()?;
        let guard = Guard::new(at)?;
        ready(&guard.first_page());
        let app = router(guard, Shared { store, stop: Arc::clone(stop) });
        let stop = Arc::clone(stop);
        let told = async move {
            while !stop.load(Ordering::Relaxed) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        serve_until(listener, app, told).await
    });
    // A page that is still being made is not waited for.
    runtime.shutdown_timeout(PATIENCE);
    served.map_err(failed)
}

/// What connections run on: the thread that waits for it.
fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()
}

/// Answers requests until `told` is done, and gives connections a little time to end after that.
async fn serve_until(
    listener: tokio::net::TcpListener,
    app: Router,
    told: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let told = told.shared();
    let serving = axum::serve(listener, app).with_graceful_shutdown(told.clone());
    tokio::select! {
        served = async { serving.await } => served,
        () = async { told.await; tokio::time::sleep(PATIENCE).await; } => Ok(()),
    }
}

fn router(guard: Guard, shared: Shared) -> Router {
    let app = Router::new()
        .route("/style.css", get(|| async { form::style() }))
        .route("/pages.js", get(|| async { form::script() }))
        .route("/icon.svg", get(|| async { form::icon() }))
        .route("/run/events", get(events))
        .fallback(|| async { form::missing("there is no such page") });
    let app = paged(app, "/", "/runs", pages::runs);
    let app = paged(app, "/run", "/run", pages::run);
    let app = paged(app, "/history", "/history", pages::history);
    let app = paged(app, "/compare", "/compare", pages::compare);
    app.layer(axum::middleware::from_fn_with_state(Arc::new(guard), guard::check)).with_state(shared)
}

/// The parameters of a request.
type Parameters = std::collections::BTreeMap<String, String>;

/// Makes a page, or its data.
type Make = fn(&Store, &Parameters, Form) -> Result<Response, pages::Problem>;

/// A page at a path, and its data at another one with an ending.
fn paged(app: Router<Shared>, page: &str, data: &str, make: Make) -> Router<Shared> {
    let handler = move |form: Form| {
        move |State(shared): State<Shared>, Query(parameters): Query<Parameters>| async move {
            // Reading runs takes a while, and other connections go on.
            let made = tokio::task::spawn_blocking(move || make(&shared.store, &parameters, form)).await;
            match made {
                Ok(Ok(response)) => response,
                Ok(Err(problem)) => form::problem(&problem, form),
                Err(_) => form::problem(&pages::Problem::fault("the page could not be made"), form),
            }
        }
    };
    app.route(page, get(handler(Form::Page)))
        .route(&format!("{data}.json"), get(handler(Form::Json)))
        .route(&format!("{data}.csv"), get(handler(Form::Csv)))
}

/// What a run does, as it does it.
async fn events(State(shared): State<Shared>, Query(parameters): Query<Parameters>) -> Response {
    let name = parameters.get("name").cloned().unwrap_or_default();
    let found = {
        let store = Arc::clone(&shared.store);
        tokio::task::spawn_blocking(move || store.folder(&name)).await
    };
    match found {
        Ok(Some(folder)) => live::events(folder, shared.stop),
        _ => form::missing("there is no such run"),
    }
}

/// For fuzzing: a name of a run, a title, a parameter and a metric as hostile as can be, in all pages. Nothing of it is markup.
///
/// # Panics
/// Where a page cannot be made.
pub fn fuzz_pages(dir: &std::path::Path) -> Vec<String> {
    let store = Store::new(&[dir.to_owned()]).expect("a folder");
    let names: Vec<String> = store.runs().iter().map(|run| run.name.clone()).collect();
    let mut all = vec![pages::runs_html(&store, &Parameters::new())];
    for name in names {
        let of = |key: &str| Parameters::from([(key.to_owned(), name.clone())]);
        all.push(pages::run_html(&store, &of("name")));
        let both = Parameters::from([("a".to_owned(), name.clone()), ("b".to_owned(), name.clone())]);
        all.push(pages::compare_html(&store, &both));
    }
    all.push(pages::history_html(&store, &Parameters::new()));
    all.into_iter().map(|page| page.unwrap_or_else(|problem| problem.text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use axum::http::header::{COOKIE, HOST, LOCATION, SET_COOKIE};
    use axum::http::{Request, StatusCode};
    use tower::ServiceExt;

    /// The answer of pages on an address that other machines reach; there is no socket.
    fn answer(app: &Router, path: &str, cookie: Option<&str>) -> Response {
        let mut request = Request::get(path).header(HOST, "rack.example");
        if let Some(cookie) = cookie {
            request = request.header(COOKIE, cookie);
        }
        let request = request.body(Body::empty()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(app.clone().oneshot(request)).unwrap()
    }

    #[test]
    fn other_machines_read_nothing_until_they_have_the_cookie_that_the_token_gives() {
        let runs = tempfile::tempdir().unwrap();
        let at = "192.0.2.1:80".parse().unwrap();
        let guard = Guard::new(at).unwrap();
        let first_page = guard.first_page();
        let store = Arc::new(Store::new(&[runs.path().into()]).unwrap());
        let app = router(guard, Shared { store, stop: Arc::default() });
        for path in ["/", "/runs.json", "/run/events?name=x", "/style.css", "/?token=", "/?token=0", "/none"]
        {
            assert_eq!(answer(&app, path, None).status(), StatusCode::FORBIDDEN, "{path}");
        }
        let path = first_page.strip_prefix("http://192.0.2.1:80").unwrap();
        let welcome = answer(&app, path, None);
        assert_eq!(welcome.status(), StatusCode::SEE_OTHER);
        assert_eq!(welcome.headers()[LOCATION], "/");
        let cookie = welcome.headers()[SET_COOKIE].to_str().unwrap();
        assert!(cookie.contains("; HttpOnly; SameSite=Strict"), "{cookie}");
        let cookie = cookie.split(';').next().unwrap();
        for path in ["/", "/runs.json", "/style.css"] {
            assert_eq!(answer(&app, path, Some(cookie)).status(), StatusCode::OK, "{path}");
        }
        let other = format!("{cookie}0");
        assert_eq!(answer(&app, "/", Some(&other)).status(), StatusCode::FORBIDDEN);
    }
}
