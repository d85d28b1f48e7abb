//! Rows of coloured characters: a picture before it is on a terminal.

/// A foreground colour; the number is its SGR parameter (ECMA-48, 8.3.117; 90 as in aixterm).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Colour {
    /// The terminal's own.
    #[default]
    Plain = 39,
    Red = 31,
    Green = 32,
    Yellow = 33,
    Blue = 34,
    Magenta = 35,
    Cyan = 36,
    Grey = 90,
}

/// How a character looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Style {
    pub colour: Colour,
    pub bold: bool,
}

impl From<Colour> for Style {
    fn from(colour: Colour) -> Self {
        Self { colour, bold: false }
    }
}

/// Text in several styles, one column for each character.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Line(Vec<(String, Style)>);

impl<T: Into<String>> From<T> for Line {
    fn from(text: T) -> Self {
        Self::coloured(text, Colour::Plain)
    }
}

impl Line {
    pub fn coloured(text: impl Into<String>, colour: Colour) -> Self {
        Self(vec![(text.into(), colour.into())])
    }

    pub fn bold(text: impl Into<String>) -> Self {
        Self(vec![(text.into(), Style { colour: Colour::Plain, bold: true })])
    }

    /// The same with more text after it.
    #[must_use]
    pub fn and(mut self, text: impl Into<String>, colour: Colour) -> Self {
        self.0.push((text.into(), colour.into()));
        self
    }

    /// Columns.
    pub fn width(&self) -> usize {
        self.0.iter().map(|(text, _)| text.chars().count()).sum()
    }

    fn cells(&self) -> impl Iterator<Item = Cell> + '_ {
        self.0.iter().flat_map(|(text, style)| text.chars().map(|symbol| Cell { symbol, style: *style }))
    }
}

/// One character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub symbol: char,
    pub style: Style,
}

impl Default for Cell {
    fn default() -> Self {
        Self { symbol: ' ', style: Style::default() }
    }
}

/// A picture of a fixed width that grows downwards.
#[derive(Clone, Debug)]
pub(super) struct Canvas {
    pub width: usize,
    pub rows: Vec<Vec<Cell>>,
}

impl Canvas {
    pub fn new(width: usize) -> Self {
        Self { width, rows: Vec::new() }
    }

    /// Adds a row; what is too long is cut off.
    pub fn line(&mut self, line: &Line) {
        let mut row: Vec<Cell> = line.cells().take(self.width).collect();
        // A control character would be a movement to the terminal.
        row.iter_mut().filter(|cell| cell.symbol.is_control()).for_each(|cell| cell.symbol = '?');
        row.resize(self.width, Cell::default());
        self.rows.push(row);
    }

    /// Writes into a row that is there, from a column on; what is outside is cut off.
    pub fn write(&mut self, x: usize, y: usize, line: &Line) {
        let Some(row) = self.rows.get_mut(y) else { return };
        row.iter_mut().skip(x).zip(line.cells()).for_each(|(cell, new)| *cell = new);
    }

    /// The characters without their styles, rows ended by line feeds, without blanks at their ends.
    #[cfg(test)]
    pub fn text(&self) -> String {
        let row =
            |row: &Vec<Cell>| row.iter().map(|c| c.symbol).collect::<String>().trim_end().to_owned() + "\n";
        self.rows.iter().map(row).collect()
    }
}
