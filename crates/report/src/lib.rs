//! Results to terminal tables and one self-contained HTML file with SVG.
