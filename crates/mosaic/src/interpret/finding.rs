//! What was found to be wrong with a kernel. Findings are values; the command line makes text of them.

use serde::Serialize;

use crate::ir::Place;

/// Some indices of one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Range {
    /// The first.
    pub start: usize,
    /// How many.
    pub len: usize,
}

/// A part of a buffer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Area {
    /// The name of the kernel's argument, or of the operation that allocated it.
    pub buffer: String,
    /// Per dimension; none where the part is not a box.
    pub ranges: Option<Vec<Range>>,
}

/// Who acts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Agent {
    /// The core that runs the kernel.
    Core,
    /// A copy that the kernel started; copies are numbered in the order in which they start.
    Copy(usize),
    /// A copy that moves the window of an operand.
    Window(usize),
}

/// A line of the kernel, and when it ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Site {
    /// Who.
    pub agent: Agent,
    /// Where in the text; an operation that was built, and not read, has no place.
    pub line: Option<u32>,
    /// The operation.
    pub op: String,
    /// The step of the grid.
    pub step: Vec<i64>,
}

/// Something that a reader of the result has to know about the chip; it is no finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// Where in the text.
    pub line: Option<u32>,
    /// The operation.
    pub op: String,
    /// What the chip does.
    pub message: String,
}

/// One kind of trouble.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Trouble {
    /// Something is read while a copy may still be writing it.
    ReadDuringCopyIn {
        /// What.
        area: Area,
        /// The copy, where it was started.
        copy: Site,
        /// The read.
        read: Site,
        /// The semaphore to wait on.
        semaphore: String,
    },
    /// Something is written while a copy may still be writing it.
    WriteDuringCopyIn {
        /// What.
        area: Area,
        /// The copy, where it was started.
        copy: Site,
        /// The write.
        write: Site,
        /// The semaphore to wait on.
        semaphore: String,
    },
    /// A buffer is overwritten while a copy out of it may still be reading it.
    OverwrittenDuringCopyOut {
        /// What.
        area: Area,
        /// The copy, where it was started.
        copy: Site,
        /// The write.
        write: Site,
        /// The semaphore to wait on.
        semaphore: String,
    },
    /// A wait that can never end.
    Deadlock {
        /// The semaphore.
        semaphore: String,
        /// The wait.
        wait: Site,
        /// What it waits for: bytes for copies, else a count.
        needed: i64,
        /// What the semaphore holds, with every copy that was started already counted.
        available: i64,
        /// The copies that signal this semaphore, most recent last.
        signalled_by: Vec<Site>,
    },
    /// A semaphore is not zero when the kernel ends, which halts the chip.
    SemaphoreLeftOver {
        /// The semaphore.
        semaphore: String,
        /// What it holds.
        count: i64,
        /// Who signalled it.
        signalled_by: Vec<Site>,
    },
    /// Memory is read that nothing has written.
    ReadOfUnwritten {
        /// What.
        area: Area,
        /// The read.
        read: Site,
    },
    /// An access leaves its buffer.
    OutOfBounds {
        /// The buffer.
        buffer: String,
        /// The dimension.
        dimension: usize,
        /// The first index.
        index: i64,
        /// How many.
        size: usize,
        /// How many there are.
        extent: usize,
        /// The access.
        access: Site,
    },
    /// A part of a result was never written.
    OutputNotWritten {
        /// Where the first such element is.
        area: Area,
        /// How many elements.
        elements: usize,
        /// Of how many.
        of: usize,
    },
    /// The kernel was stopped: it has executed as many operations as it may.
    OutOfOperations {
        /// How many.
        operations: u64,
        /// What it was about to do.
        site: Site,
    },
    /// An assertion of the kernel's own does not hold.
    AssertionFailed {
        /// What it says.
        message: String,
        /// Where.
        site: Site,
    },
}

/// Something wrong, and how often.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What, the first time.
    #[serde(flatten)]
    pub trouble: Trouble,
    /// How many times at the same lines.
    pub times: usize,
}

impl Site {
    pub(crate) fn new(agent: Agent, place: Option<Place>, op: &str, step: &[i64]) -> Self {
        Self { agent, line: place.map(|place| place.line), op: op.to_owned(), step: step.to_vec() }
    }
}

impl Trouble {
    /// The lines that tell one trouble from another of its kind.
    pub fn lines(&self) -> Vec<Option<u32>> {
        match self {
            Self::ReadDuringCopyIn { copy, read, .. } => vec![read.line, copy.line],
            Self::WriteDuringCopyIn { copy, write, .. }
            | Self::OverwrittenDuringCopyOut { copy, write, .. } => {
                vec![write.line, copy.line]
            }
            Self::Deadlock { wait, .. } => vec![wait.line],
            Self::SemaphoreLeftOver { signalled_by, .. } => {
                signalled_by.iter().map(|site| site.line).collect()
            }
            Self::ReadOfUnwritten { read, .. } => vec![read.line],
            Self::OutOfBounds { access, .. } => vec![access.line],
            Self::OutputNotWritten { .. } => Vec::new(),
            Self::AssertionFailed { site, .. } | Self::OutOfOperations { site, .. } => vec![site.line],
        }
    }

    /// The buffer or semaphore that it is about.
    pub fn subject(&self) -> &str {
        match self {
            Self::ReadDuringCopyIn { area, .. }
            | Self::WriteDuringCopyIn { area, .. }
            | Self::OverwrittenDuringCopyOut { area, .. }
            | Self::ReadOfUnwritten { area, .. }
            | Self::OutputNotWritten { area, .. } => &area.buffer,
            Self::Deadlock { semaphore, .. } | Self::SemaphoreLeftOver { semaphore, .. } => semaphore,
            Self::OutOfBounds { buffer, .. } => buffer,
            Self::AssertionFailed { message, .. } => message,
            Self::OutOfOperations { site, .. } => &site.op,
        }
    }

    fn same_cause(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
            && self.subject() == other.subject()
            && self.lines() == other.lines()
    }
}

/// Findings, each cause once.
#[derive(Debug, Default)]
pub(crate) struct Findings(pub(crate) Vec<Finding>);

impl Findings {
    pub(crate) fn add(&mut self, trouble: Trouble) {
        match self.0.iter_mut().find(|finding| finding.trouble.same_cause(&trouble)) {
            Some(known) => known.times += 1,
            None => self.0.push(Finding { trouble, times: 1 }),
        }
    }
}
