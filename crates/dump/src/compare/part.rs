//! The parts of a kernel that two dumps of it can be compared by.

use std::fmt;

use serde::Serialize;

use crate::facts::{Evidence, Level, Role, role::Array, role::Roles};

/// What kind of part it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// An operand of the kernel, and where it lives.
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

/// Something about a part that can be another thing in the other dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Aspect {
    /// Element type, or those of both operands.
    Element,
    /// Dimensions.
    Shape,
    /// How often it is in the text.
    Count,
    /// How often it is executed.
    Executed,
    /// The memory it is in.
    Space,
    /// From which memory to which.
    Route,
    /// What moves it.
    Engine,
    /// What fills a buffer.
    FilledBy,
    /// The semaphore it signals.
    Semaphore,
    /// Bytes.
    Bytes,
    /// Places in the destination that take turns.
    Places,
    /// Whether it goes on while the matrix units multiply.
    Overlaps,
    /// How often a loop runs.
    Trips,
    /// Length of code.
    Bundles,
    /// Vector registers that did not fit.
    Spills,
    /// Registers of a GPU thread.
    Registers,
}

impl Aspect {
    /// What to call it in a sentence.
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
            Self::Places => "places in turn",
            Self::Overlaps => "overlap with products",
            Self::Trips => "iterations",
            Self::Bundles => "bundles",
            Self::Spills => "vector spills",
            Self::Registers => "registers of a thread",
        }
    }
}

/// What an aspect is.
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

/// One part. Parts of two dumps belong together where stage, subject and role are the same.
#[derive(Clone, Debug)]
pub struct Part {
    pub stage: Level,
    pub subject: Subject,
    /// What it is to the kernel, as the subject of a sentence: `the buffer of the first scale`.
    pub role: String,
    pub aspects: Vec<(Aspect, Value)>,
    pub evidence: Evidence,
}

impl Part {
    pub fn new(stage: Level, subject: Subject, role: impl Into<String>, evidence: Evidence) -> Self {
        Self { stage, subject, role: role.into(), aspects: Vec::new(), evidence }
    }

    /// With an aspect.
    pub fn with(mut self, aspect: Aspect, value: impl Into<Value>) -> Self {
        self.aspects.push((aspect, value.into()));
        self
    }

    /// With an aspect that may not be known.
    pub fn with_known(self, aspect: Aspect, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(aspect, value),
            None => self,
        }
    }

    pub fn is(&self, subject: Subject, stage: Level) -> bool {
        (self.subject, self.stage) == (subject, stage)
    }

    pub fn matches(&self, other: &Self) -> bool {
        (self.stage, self.subject, &self.role) == (other.stage, other.subject, &other.role)
    }

    /// Aspects that both know and that are the same.
    pub fn likeness(&self, other: &Self) -> usize {
        self.aspects.iter().filter(|aspect| other.aspects.contains(aspect)).count()
    }

    pub fn get(&self, aspect: Aspect) -> Option<&Value> {
        self.aspects.iter().find(|(other, _)| *other == aspect).map(|(_, value)| value)
    }

    /// All that is known of it, in a few words.
    pub fn summary(&self) -> String {
        let words = self.aspects.iter().map(|(aspect, value)| match aspect {
            Aspect::Element | Aspect::Shape | Aspect::Space | Aspect::Route | Aspect::Engine => {
                value.to_string()
            }
            _ => format!("{} {value}", aspect.noun()),
        });
        words.collect::<Vec<_>>().join(", ")
    }
}

/// That an aspect of a part is another one, as a sentence without a full stop.
pub fn sentence(role: &str, aspect: Aspect, before: &Value, after: &Value) -> String {
    match (aspect, before, after) {
        (Aspect::Space, ..) => format!("{role} moved {before} -> {after}"),
        (Aspect::Places, _, Value::Number(1)) => {
            format!("{role} became single: {before} places in turn -> 1")
        }
        (Aspect::Places, Value::Number(1), Value::Number(2)) => {
            format!("{role} became double: 1 -> 2 places in turn")
        }
        (Aspect::Overlaps, _, Value::Flag(true)) => format!("{role} now overlap with the products"),
        (Aspect::Overlaps, _, Value::Flag(false)) => format!("{role} no longer overlap with the products"),
        (Aspect::Route, ..) => format!("{role} go {after}, no longer {before}"),
        (Aspect::FilledBy, ..) => format!("{role} is filled by {after}, no longer by {before}"),
        _ => format!("{role}: {} {before} -> {after}", aspect.noun()),
    }
}

/// Names for operands by what they are, counted within each kind, so that they do not depend on the order of kinds.
pub fn operand_names<'a>(operands: impl Iterator<Item = (Array<'a>, bool)> + Clone) -> Vec<String> {
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
pub fn dims(dims: &[u64]) -> String {
    match dims {
        [] => "scalar".to_owned(),
        dims => dims.iter().map(u64::to_string).collect::<Vec<_>>().join("x"),
    }
}
