//! A load while it runs: a model fed by its events, drawn on a terminal, exported to Prometheus.
//!
//! [`Live`] is pure. [`Screen`] draws it, frame over frame where the cursor is, in the ordinary screen,
//! with nothing but relative movements: no terminal mode is changed, so nothing needs to be restored
//! whatever ends the program, and the last frame stays. [`exposition`] is the text for Prometheus, which `serve::Exporter` serves.

mod canvas;
mod exposition;
mod model;
mod plot;
mod render;
mod screen;
#[cfg(test)]
mod tests;
mod validity;

pub use exposition::{Format, exposition};
pub use model::{About, CoreUse, Figures, Live, Machine, Trial};
pub use screen::Screen;
pub use validity::Limits;
