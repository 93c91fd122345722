//! Tables as they are used: the user's before the shipped one, indexed by problem.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, OnceLock},
};

use serde::Serialize;

use super::{TableError, TunedDevice, TunedEntry, TunedTable, TunedTarget, TunedWith};
use crate::Problem;

/// Who measured a table, which decides what makes its entries stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TableOrigin {
    /// The user. An entry counts with the versions that it was measured with: a new driver is a reason to
    /// measure again, and the user can.
    User,
    /// The authors. An entry counts as long as the kernels are the same, with any driver or compiler below
    /// them and any version of the library around them: the model that chooses default plans was fitted with
    /// one version of each, too.
    Shipped,
}

impl TableOrigin {
    /// What makes an entry stale, in words.
    fn difference(self, then: &TunedWith, now: &TunedWith) -> Option<String> {
        if self == Self::User {
            if then.library != now.library {
                return Some(format!("octile {}, not {}", excerpt(&then.library), now.library));
            }
            if then.driver != now.driver {
                let named = |driver: &str| match driver {
                    "" => "no driver".to_owned(),
                    compiler if compiler.contains(' ') => excerpt(compiler),
                    version => format!("driver {}", excerpt(version)),
                };
                return Some(format!("{}, not {}", named(&then.driver), named(&now.driver)));
            }
        }
        (then.kernels != now.kernels).then(|| "other kernels".to_owned())
    }
}

/// Longest text of an entry in a sentence.
const EXCERPT: usize = 40;
/// Most reasons in a sentence.
const MOST_REASONS: usize = 3;

/// Text of a file as a part of one line, cut where it is long.
fn excerpt(text: &str) -> String {
    let mut shown = String::new();
    for (at, character) in text.chars().enumerate() {
        match character {
            _ if at == EXCERPT => {
                shown.push('…');
                break;
            }
            control if control.is_control() => shown.extend(control.escape_default()),
            other => shown.push(other),
        }
    }
    shown
}

/// A table that is looked up by problem.
#[derive(Debug, Default)]
struct IndexedTable {
    entries: Vec<TunedEntry>,
    /// Entries of a problem: one per device.
    at: HashMap<Problem, Vec<usize>>,
}

impl From<TunedTable> for IndexedTable {
    fn from(table: TunedTable) -> Self {
        let mut at: HashMap<Problem, Vec<usize>> = HashMap::new();
        for (index, entry) in table.entries.iter().enumerate() {
            at.entry(entry.problem).or_default().push(index);
        }
        Self { entries: table.entries, at }
    }
}

impl IndexedTable {
    fn entry(&self, device: &TunedDevice, problem: &Problem) -> Option<&TunedEntry> {
        // A problem that is named twice, which no search writes, has the later entry, as after a merge.
        let mut entries = self.at.get(problem)?.iter().rev().map(|&index| &self.entries[index]);
        entries.find(|entry| entry.device == *device)
    }
}

/// The text of a shipped table.
fn shipped_text(target: TunedTarget) -> &'static str {
    match target {
        TunedTarget::Cpu => include_str!("cpu.json"),
        TunedTarget::Gpu => include_str!("gpu.json"),
        TunedTarget::Tpu => include_str!("tpu.json"),
    }
}

/// Reads the table that comes with the library.
pub fn shipped(target: TunedTarget) -> Result<TunedTable, TableError> {
    TunedTable::parse(shipped_text(target))
}

/// The same, read when it is first asked for; empty if it is damaged, which a test rules out.
fn indexed_shipped(target: TunedTarget) -> Arc<IndexedTable> {
    static TABLES: [OnceLock<Arc<IndexedTable>>; TunedTarget::ALL.len()] =
        [const { OnceLock::new() }; TunedTarget::ALL.len()];
    let read = || Arc::new(shipped(target).unwrap_or_default().into());
    Arc::clone(TABLES[target as usize].get_or_init(read))
}

/// The tables for a kind of device: the user's, and behind it the shipped one.
#[derive(Debug, Default)]
pub struct TunedTables {
    user: IndexedTable,
    shipped: Arc<IndexedTable>,
}

impl TunedTables {
    /// A user's table alone.
    pub fn of_user(table: TunedTable) -> Self {
        Self { user: table.into(), shipped: Arc::default() }
    }

    /// The same with a shipped table behind it.
    pub fn over(self, shipped: TunedTable) -> Self {
        Self { shipped: Arc::new(shipped.into()), ..self }
    }

    /// The same with the table behind it that comes with the library.
    pub fn over_shipped(self, target: TunedTarget) -> Self {
        Self { shipped: indexed_shipped(target), ..self }
    }

    fn layers(&self) -> [(TableOrigin, &IndexedTable); 2] {
        [(TableOrigin::User, &self.user), (TableOrigin::Shipped, &self.shipped)]
    }

    /// The problems that tables have an entry for on a device, stale or not; some twice.
    pub fn problems(&self, device: &TunedDevice) -> impl Iterator<Item = &Problem> {
        let entries = self.layers().into_iter().flat_map(|(_, table)| &table.entries);
        entries.filter(move |entry| entry.device == *device).map(|entry| &entry.problem)
    }

    /// Whether there is an entry for a problem, on any device, stale or not.
    pub fn contains(&self, problem: &Problem) -> bool {
        self.layers().iter().any(|(_, table)| table.at.contains_key(problem))
    }

    /// The first entry for a problem on a device that is not stale. `with` tells what the kernels of an entry
    /// are now; `None` where they cannot be made.
    pub fn lookup(
        &self,
        device: &TunedDevice,
        problem: &Problem,
        with: impl Fn(&TunedEntry) -> Option<TunedWith>,
    ) -> Option<&TunedEntry> {
        self.find(device, problem, with).map(|(_, entry)| entry)
    }

    /// The same with the table that has it.
    pub fn find(
        &self,
        device: &TunedDevice,
        problem: &Problem,
        with: impl Fn(&TunedEntry) -> Option<TunedWith>,
    ) -> Option<(TableOrigin, &TunedEntry)> {
        self.layers().into_iter().find_map(|(origin, table)| {
            let entry = table.entry(device, problem)?;
            let now = with(entry)?;
            origin.difference(&entry.with, &now).is_none().then_some((origin, entry))
        })
    }

    /// What entries of the user for this device and these problems that do not count any more differ in.
    pub fn stale(
        &self,
        device: &TunedDevice,
        is_asked: impl Fn(&Problem) -> bool,
        with: impl Fn(&TunedEntry) -> Option<TunedWith>,
    ) -> Option<String> {
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        let of_device = self.user.entries.iter().filter(|entry| entry.device == *device);
        for entry in of_device.filter(|entry| is_asked(&entry.problem)) {
            let reason = match with(entry) {
                Some(now) => TableOrigin::User.difference(&entry.with, &now),
                None => Some("plans that no search makes here".to_owned()),
            };
            if let Some(reason) = reason {
                *reasons.entry(reason).or_default() += 1;
            }
        }
        let count: usize = reasons.values().sum();
        let measured = match reasons.len() {
            0 => return None,
            1 => format!("measured with {}", reasons.into_keys().next().unwrap_or_default()),
            _ => {
                let parts = reasons.iter().map(|(reason, count)| format!("{count} with {reason}"));
                let mut parts: Vec<String> = parts.take(MOST_REASONS).collect();
                let others: usize = reasons.values().skip(MOST_REASONS).sum();
                parts.extend((others > 0).then(|| format!("{others} with others")));
                format!("measured {}", parts.join("; "))
            }
        };
        let entries = if count == 1 { "entry" } else { "entries" };
        Some(format!("ignoring {count} tuned {entries} for {device}, {measured}"))
    }
}
