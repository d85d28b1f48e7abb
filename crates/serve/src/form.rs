//! Responses: pages, their data, and what is wrong.

use crate::pages::Problem;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// How a page is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// HTML.
    Page,
    /// Its data as JSON.
    Json,
    /// Its data as CSV.
    Csv,
}

impl Form {
    fn kind(self) -> &'static str {
        match self {
            Self::Page => "text/html; charset=utf-8",
            Self::Json => "application/json",
            Self::Csv => "text/csv; charset=utf-8",
        }
    }

    /// A response of this form.
    pub fn response(self, text: String) -> Response {
        with(StatusCode::OK, self.kind(), text)
    }
}

fn with(status: StatusCode, kind: &'static str, text: impl Into<String>) -> Response {
    (status, [(CONTENT_TYPE, HeaderValue::from_static(kind))], text.into()).into_response()
}

/// The style of all pages: that of reports, and a little more.
pub fn style() -> Response {
    let more = include_str!("../templates/pages.css");
    with(StatusCode::OK, "text/css; charset=utf-8", format!("{}\n{more}", report::STYLE))
}

/// The script of all pages.
pub fn script() -> Response {
    with(StatusCode::OK, "text/javascript; charset=utf-8", include_str!("../templates/pages.js"))
}

/// The icon of all pages: a rack.
pub fn icon() -> Response {
    with(StatusCode::OK, "image/svg+xml", include_str!("../templates/icon.svg"))
}

/// There is no such thing.
pub fn missing(text: &str) -> Response {
    problem(&Problem { status: StatusCode::NOT_FOUND, text: text.into() }, Form::Page)
}

/// It may not be read.
pub fn refused(text: &str) -> Response {
    with(StatusCode::FORBIDDEN, "text/plain; charset=utf-8", format!("{text}\n"))
}

/// What is wrong, in the form that was asked for.
pub fn problem(problem: &Problem, form: Form) -> Response {
    match form {
        Form::Page => with(problem.status, form.kind(), crate::pages::problem_html(&problem.text)),
        Form::Json => {
            let text = serde_json::json!({ "error": problem.text }).to_string();
            with(problem.status, form.kind(), text + "\n")
        }
        Form::Csv => with(problem.status, "text/plain; charset=utf-8", format!("{}\n", problem.text)),
    }
}

/// Rows as CSV, with a head.
pub fn csv(rows: impl IntoIterator<Item = impl Serialize>) -> Result<String, Problem> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer.serialize(row).map_err(|e| Problem::fault(&e.to_string()))?;
    }
    let octets = writer.into_inner().map_err(|e| Problem::fault(&e.to_string()))?;
    String::from_utf8(octets).map_err(|e| Problem::fault(&e.to_string()))
}
