//! The parts of a kernel that a comparison pairs up.

use std::fmt;

use serde::Serialize;

use crate::facts::{Evidence, Level, Role, role::Array, role::Roles};

/// Kind of part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// An operand of the kernel and its memory space.
    Operand,
    /// On-chip memory.
    Buffer,
    /// Copies of one array.
    Copies,
    /// Matrix multiplications.
    Products,
    /// A loop or the grid.
    Loop,
    /// The code as a whole.
    Code,
}

/// A property of a part that may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Aspect {
    /// Element type, or those of both operands.
    Element,
    /// Dimensions.
    Shape,
    /// Occurrences in the text.
    Count,
    /// Executions.
    Executed,
    /// Memory space.
    Space,
    /// Source and destination memory.
    Route,
    /// The instruction that copies it.
    Engine,
    /// How a buffer is filled.
    FilledBy,
    /// The semaphore it signals.
    Semaphore,
    /// Bytes.
    Bytes,
    /// Buffer slots in the destination.
    Places,
    /// Whether it overlaps with matmuls.
    Overlaps,
    /// Trip count.
    Trips,
    /// Length of code.
    Bundles,
    /// Vector register spills.
    Spills,
    /// Registers of a GPU thread.
    Registers,
}

impl Aspect {
    /// Noun for sentences.
    fn noun(self) -> &'static str {
        match self {
            Self::Element => "type",
            Self::Shape => "shape",
            Self::Count => "times in the text",
            Self::Executed => "times executed",
            Self::Space => "memory",
            Self::Route => "route",
            Self::Engine => "engine",
            Self::FilledBy => "filled by",
            Self::Semaphore => "semaphore",
            Self::Bytes => "bytes",
            Self::Places => "slots",
            Self::Overlaps => "overlap with products",
            Self::Trips => "iterations",
            Self::Bundles => "bundles",
            Self::Spills => "vector spills",
            Self::Registers => "registers of a thread",
        }
    }
}

/// Value of an aspect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A count.
    Number(u64),
    /// Yes or no.
    Flag(bool),
    /// Anything else.
    Text(String),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Flag(flag) => f.pad(if *flag { "yes" } else { "no" }),
            Self::Text(text) => f.pad(text),
        }
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Self {
        Self::Number(number as u64)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// One part. Parts of two dumps are paired by stage, subject and role.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub stage: Level,
    pub subject: Subject,
    /// Its role, as the subject of a sentence: `the buffer of the first scale`.
    pub role: String,
    pub aspects: Vec<(Aspect, Value)>,
    pub evidence: Evidence,
}

impl Part {
    pub(super) fn new(stage: Level, subject: Subject, role: impl Into<String>, evidence: Evidence) -> Self {
        Self { stage, subject, role: role.into(), aspects: Vec::new(), evidence }
    }

    /// With an aspect.
    pub(super) fn with(mut self, aspect: Aspect, value: impl Into<Value>) -> Self {
        self.aspects.push((aspect, value.into()));
        self
    }

    /// With an aspect, if known.
    pub(super) fn with_known(self, aspect: Aspect, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(aspect, value),
            None => self,
        }
    }

    pub(super) fn is(&self, subject: Subject, stage: Level) -> bool {
        (self.subject, self.stage) == (subject, stage)
    }

    pub(super) fn matches(&self, other: &Self) -> bool {
        (self.stage, self.subject, &self.role) == (other.stage, other.subject, &other.role)
    }

    /// Number of aspects with equal values.
    pub(super) fn likeness(&self, other: &Self) -> usize {
        self.aspects.iter().filter(|aspect| other.aspects.contains(aspect)).count()
    }

    pub(super) fn get(&self, aspect: Aspect) -> Option<&Value> {
        self.aspects.iter().find(|(other, _)| *other == aspect).map(|(_, value)| value)
    }

    /// A short description.
    pub(super) fn summary(&self) -> String {
        let words = self.aspects.iter().map(|(aspect, value)| match aspect {
            Aspect::Element | Aspect::Shape | Aspect::Space | Aspect::Route | Aspect::Engine => {
                value.to_string()
            }
            _ => format!("{} {value}", aspect.noun()),
        });
        words.collect::<Vec<_>>().join(", ")
    }
}

/// Describes the change of an aspect, as a sentence without a full stop.
pub(super) fn sentence(role: &str, aspect: Aspect, before: &Value, after: &Value) -> String {
    match (aspect, before, after) {
        (Aspect::Space, ..) => format!("{role} moved {before} -> {after}"),
        (Aspect::Places, _, Value::Number(1)) => {
            format!("{role} became single: {before} slots -> 1")
        }
        (Aspect::Places, Value::Number(1), Value::Number(2)) => {
            format!("{role} became double: 1 -> 2 slots")
        }
        (Aspect::Overlaps, _, Value::Flag(true)) => format!("{role} now overlap with matmuls"),
        (Aspect::Overlaps, _, Value::Flag(false)) => format!("{role} no longer overlap with matmuls"),
        (Aspect::Route, ..) => format!("{role} go {after}, no longer {before}"),
        (Aspect::FilledBy, ..) => format!("{role} is filled by {after}, no longer by {before}"),
        _ => format!("{role}: {} {before} -> {after}", aspect.noun()),
    }
}

/// Names operands by role, numbered within each role, so that they do not depend on the order of roles.
pub(super) fn operand_names<'a>(operands: impl Iterator<Item = (Array<'a>, bool)> + Clone) -> Vec<String> {
    let inputs = operands.clone().filter(|(_, output)| !output).map(|(array, _)| array);
    let roles = Roles::of(inputs);
    let (mut data, mut scales, mut results) = (0, 0, 0);
    let name = |(array, output): (Array<'a>, bool)| {
        let (count, noun) = match (output, roles.role(array)) {
            (true, _) => (&mut results, "result"),
            (_, Role::Data) => (&mut data, "data operand"),
            (_, Role::Scale) => (&mut scales, "scale"),
        };
        *count += 1;
        match (output, *count) {
            (true, 1) => "the result".to_owned(),
            (_, count) => format!("the {} {noun}", ordinal(count)),
        }
    };
    operands.map(name).collect()
}

fn ordinal(number: usize) -> String {
    match number {
        1 => "first".to_owned(),
        2 => "second".to_owned(),
        3 => "third".to_owned(),
        _ => format!("{number}th"),
    }
}

/// `2x128x128`, and `scalar` without dimensions.
pub(super) fn dims(dims: &[u64]) -> String {
    match dims {
        [] => "scalar".to_owned(),
        dims => dims.iter().map(u64::to_string).collect::<Vec<_>>().join("x"),
    }
}
