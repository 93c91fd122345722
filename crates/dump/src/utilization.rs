//! The compiler's table of unit utilization per bundle (`*static-per-bundle-utilization.txt`).

use serde::Serialize;

use crate::{
    llo::UnitUse,
    source::{Damage, Place},
};

/// One row per bundle.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Utilization {
    /// Column names as printed.
    pub columns: Vec<String>,
    /// Number of units per column.
    pub capacity: Vec<u16>,
    /// Units used, row-major, [`Utilization::columns`] wide.
    cells: Vec<u16>,
    /// What could not be read.
    pub damage: Vec<Damage>,
}

impl Utilization {
    /// Reads a table. Never fails: what cannot be read is in [`Utilization::damage`].
    pub fn parse(text: &str) -> Self {
        let mut table = Self::default();
        let mut section = Section::Before;
        for (number, line) in (1u32..).zip(text.lines()) {
            let trimmed = line.trim();
            match (section, trimmed) {
                (_, "") => {}
                // The compiler's spelling, and the correct one.
                (_, "== CAPACTIY:" | "== CAPACITY:") => section = Section::Names,
                (_, "== UTILIZATION:") => section = Section::Rows,
                (Section::Names, names) => {
                    table.columns = names.split(',').map(|name| name.trim().to_owned()).collect();
                    section = Section::Capacity;
                }
                (Section::Capacity, numbers) => match row(numbers, table.columns.len()) {
                    Some(row) => table.capacity = row.collect(),
                    None => table.complain(number, "the capacities do not match the columns"),
                },
                (Section::Rows, numbers) => match row(numbers, table.columns.len()) {
                    Some(row) => table.cells.extend(row),
                    None => table.complain(number, "this row does not match the columns"),
                },
                (Section::Before, _) => {
                    table.complain(number, "this is no utilization table");
                    break;
                }
            }
        }
        if table.damage.is_empty() && table.cells.is_empty() {
            table.complain(1, "there is no row in this table");
        }
        table
    }

    fn complain(&mut self, line: u32, what: &str) {
        self.damage.push(Damage { place: Place { line, column: 1 }, what: what.to_owned() });
    }

    /// Units used per bundle, in the order of [`Utilization::columns`].
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[u16]> {
        self.cells.chunks_exact(self.columns.len().max(1))
    }

    /// Unit use over an execution: each row times the issue count of its bundle. `None` if the table belongs to another
    /// listing or has unknown columns.
    pub fn weighted(&self, executions: &[u64]) -> Option<UnitUse> {
        if self.columns != UnitUse::COLUMNS || self.rows().len() != executions.len() {
            return None;
        }
        let mut total = UnitUse::default();
        for (row, &times) in self.rows().zip(executions) {
            let columns: [u16; 10] = row.try_into().ok()?;
            total.add_scaled(&UnitUse::from_columns(columns.map(u64::from)), times);
        }
        Some(total)
    }
}

#[derive(Clone, Copy)]
enum Section {
    Before,
    Names,
    Capacity,
    Rows,
}

/// The numbers of a line, if there are `width` valid ones.
fn row(line: &str, width: usize) -> Option<impl Iterator<Item = u16>> {
    let numbers = || line.split_ascii_whitespace().map(|n| n.parse().ok());
    let fits = numbers().all(|n: Option<u16>| n.is_some()) && numbers().count() == width;
    fits.then(|| numbers().map(Option::unwrap_or_default))
}
