//! The load engine: pace, queries and transport into a recorder; search, echo, calibration.
