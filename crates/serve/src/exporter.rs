//! The figures of a load for Prometheus, while the load runs.

use crate::guard::{self, Guard};
use crate::{PATIENCE, runtime, serve_until};
use axum::Router;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use report::live::Format;
use std::future::ready;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// Serves `/metrics` from a thread of its own until it is dropped.
#[derive(Debug)]
pub struct Exporter {
    at: SocketAddr,
    /// Dropped, it ends the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Exporter {
    /// Listens at `at` (port 0: any that is free) and asks `text` for each page.
    ///
    /// # Errors
    /// `PermissionDenied` where the address is not a loopback one: everybody who reaches it may read it. Those of the listening
    /// socket.
    pub fn start(
        at: SocketAddr,
        text: impl Fn(Format) -> String + Send + Sync + 'static,
    ) -> io::Result<Self> {
        if !at.ip().is_loopback() {
            let why = format!(
                "{at} is not a loopback address, and there is no access control: give 127.0.0.1 or [::1]"
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        let listener = TcpListener::bind(at)?;
        listener.set_nonblocking(true)?;
        let at = listener.local_addr()?;
        let app = router(Guard::new(at)?, text);
        let runtime = runtime()?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("metrics".into()).spawn(move || {
            // The load goes on where its figures cannot be served any more: whoever asks for them sees that nobody answers.
            let _ = runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener)?;
                let told = async {
                    let _ = stopped.await;
                };
                serve_until(listener, app, told).await
            });
            runtime.shutdown_timeout(PATIENCE);
        })?;
        Ok(Self { at, stop: Some(stop), thread: Some(thread) })
    }

    /// Where the figures are.
    pub fn url(&self) -> String {
        format!("http://{}/metrics", self.at)
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn router(guard: Guard, text: impl Fn(Format) -> String + Send + Sync + 'static) -> Router {
    let text = Arc::new(text);
    let page = move |headers: HeaderMap| ready(metrics(&headers, &*text));
    Router::new()
        .route("/metrics", get(page))
        .fallback((StatusCode::NOT_FOUND, "the figures are at /metrics\n"))
        .layer(axum::middleware::from_fn_with_state(Arc::new(guard), guard::check))
}

/// The figures in the format that is asked for.
fn metrics(headers: &HeaderMap, text: &dyn Fn(Format) -> String) -> Response {
    let accepted = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let format = Format::accepted(accepted);
    ([(CONTENT_TYPE, format.media_type())], text(format)).into_response()
}
