//! Frame over frame at the cursor, in the ordinary screen.
//!
//! A frame is written as whole lines, and the cursor rests below it; the next frame moves up by as many rows and writes
//! over it. No mode of the terminal is changed and the cursor is not hidden: whatever ends the program, nothing has to be
//! put right, and the last frame stays above what is printed next.

use super::Live;
use super::canvas::{Canvas, Cell, Style};
use super::render::render;
use measure::Nanos;
use std::fmt::Write as _;
use std::io::{self, Write};

/// A place on a terminal for frames.
#[derive(Debug)]
pub struct Screen<W> {
    out: W,
    colour: bool,
    /// Widths (in columns, without blanks at the end) of the rows of the frame that is there.
    drawn: Vec<usize>,
}

impl<W: Write> Screen<W> {
    /// Frames go to `out`, which is a terminal with the usual escape sequences (ECMA-48).
    pub fn new(out: W, colour: bool) -> Self {
        Self { out, colour, drawn: Vec::new() }
    }

    /// Draws the load at the wall-clock instant `now` (nanoseconds since 1970) over the frame before, on a terminal of so
    /// many columns and rows.
    ///
    /// # Errors
    /// The errors of the output.
    pub fn show(&mut self, live: &Live, now: Nanos, (width, height): (u16, u16)) -> io::Result<()> {
        // One row less than there are: the cursor rests below.
        let canvas = render(live, now, width.into(), height.saturating_sub(1).into());
        self.draw(&canvas)
    }

    /// Writes a picture that is as wide as the terminal over the frame before.
    pub(super) fn draw(&mut self, canvas: &Canvas) -> io::Result<()> {
        // Where the terminal has become narrower, it has broken longer lines into several rows.
        let broken = |used: &usize| used.div_ceil(canvas.width.max(1)).max(1);
        let up: usize = self.drawn.iter().map(broken).sum();
        let mut text = String::new();
        if up > 0 {
            let _ = write!(text, "\r\x1b[{up}A");
        }
        self.drawn.clear();
        for row in &canvas.rows {
            let used = self.line(row, &mut text);
            // Erase the rest of the line before the line ends: at the last column it would erase that.
            text.push_str(if used < canvas.width { "\x1b[K\r\n" } else { "\r\n" });
            self.drawn.push(used);
        }
        // Characters that a longer frame left, or that the user typed.
        text.push_str("\x1b[J");
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    /// One row without the blanks at its end; gives its width.
    fn line(&self, row: &[Cell], text: &mut String) -> usize {
        let used = row.iter().rposition(|c| c.symbol != ' ').map_or(0, |last| last + 1);
        let mut style = Style::default();
        for cell in &row[..used] {
            if self.colour && cell.style != style && cell.symbol != ' ' {
                style = cell.style;
                let bold = if style.bold { ";1" } else { "" };
                let _ = write!(text, "\x1b[0{bold};{}m", style.colour as u8);
            }
            text.push(cell.symbol);
        }
        if style != Style::default() {
            text.push_str("\x1b[0m");
        }
        used
    }
}
