//! Hot-path DNS bytes: header, question, OPT, query templates, names and canonical order.
