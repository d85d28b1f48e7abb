//! The elements of every measurement: clock, pace and schedule, seed, histogram, validity, metric, event.
//!
//! Small: apart from the clock and the files of `aside` and `files` nothing here touches the outside world. Times are
//! [`Nanos`] throughout; durations and instants share the type, the name of a variable says which.

pub mod aside;
pub mod calm;
pub mod clock;
pub mod coarse;
pub mod distinct;
pub mod event;
pub mod files;
pub mod hardware;
pub mod histogram;
pub mod latency;
pub mod limits;
pub mod metric;
pub mod metrics;
pub mod pace;
pub mod params;
pub mod position;
pub mod schedule;
pub mod seed;
pub mod sender_faults;
pub mod series;
pub mod time;
pub mod timeline;
pub mod units;
pub mod validity;

pub use aside::Aside;
pub use clock::Nanos;
pub use coarse::{Coarse, Cumulative};
pub use event::Event;
pub use files::Files;
pub use histogram::Histogram;
pub use latency::{Latency, PacingError};
pub use metric::{Metric, Named, Outcome};
pub use metrics::Definition;
pub use pace::{Arrivals, Pace};
pub use params::Parameter;
pub use position::line_column;
pub use schedule::Schedule;
pub use seed::{Draw, Seed};
pub use time::Time;
pub use timeline::{Burst, Timeline};
pub use validity::{Reason, Validity};
