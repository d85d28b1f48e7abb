//! Hosts, links and a switch on one machine; the launcher; confinement and clean-up.
