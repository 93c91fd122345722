//! Findings: defects of a kernel, as values. The command line renders them.

use std::collections::HashMap;

use serde::Serialize;

use crate::ir::{Place, SourceFrame, SourceStack};

/// A range of indices along one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Range {
    /// First index.
    pub start: usize,
    /// Number of indices.
    pub len: usize,
}

/// A region of a buffer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Area {
    /// Name of the kernel argument, or of the operation that allocated it.
    pub buffer: String,
    /// Ranges per dimension; empty if the region is not a box.
    pub ranges: Option<Vec<Range>>,
    /// Device whose memory it is, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<usize>,
}

/// An agent: the core or a DMA.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Agent {
    /// The core.
    Core,
    /// A DMA started by the kernel, numbered in start order.
    Copy(usize),
    /// A DMA of an operand's pipelined window.
    Window(usize),
}

/// An operation at one grid step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Site {
    /// Agent that executed it.
    pub agent: Agent,
    /// Line in the text; `None` if the operation was built, not parsed.
    pub line: Option<u32>,
    /// Where the operation comes from in the lowered program, innermost call first; empty if unknown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub source: Vec<SourceFrame>,
    /// Name of the operation.
    pub op: String,
    /// Grid step.
    pub step: Vec<i64>,
    /// Device that executed it, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<usize>,
}

/// A device that waits in a deadlock between devices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Waiter {
    /// Its semaphore.
    pub semaphore: String,
    /// The wait.
    pub wait: Site,
    /// Amount awaited: bytes for DMAs, else a count.
    pub needed: i64,
    /// Amount the semaphore holds.
    pub available: i64,
    /// Signals on this semaphore, most recent last.
    pub signalled_by: Vec<Site>,
}

/// A remark on chip behaviour that matters for reading the result; not a defect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// Line in the text.
    pub line: Option<u32>,
    /// Name of the operation.
    pub op: String,
    /// Behaviour of the chip.
    pub message: String,
}

/// What a kernel printed with `pl.debug_print`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Print {
    /// The print.
    pub site: Site,
    /// The text.
    pub text: String,
}

/// Ways to misuse an MXU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MxuMisuse {
    /// Weights are pushed to a staging register that holds weights.
    StagingFull,
    /// Weights are loaded from a staging register that holds none.
    StagingEmpty,
    /// An MXU multiplies before weights were loaded into it.
    NoWeights,
    /// Sums are popped to which nothing was added.
    NothingAdded,
    /// Weights are in a staging register when the kernel ends.
    WeightsLeft,
    /// Sums are in the accumulators when the kernel ends.
    SumsLeft,
}

/// Kinds of defects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Trouble {
    /// Read of a region that a DMA may still be writing.
    ReadDuringCopyIn {
        /// Region.
        area: Area,
        /// The DMA's start.
        copy: Site,
        /// The read.
        read: Site,
        /// Semaphore to wait on.
        semaphore: String,
    },
    /// Write to a region that a DMA may still be writing.
    WriteDuringCopyIn {
        /// Region.
        area: Area,
        /// The DMA's start.
        copy: Site,
        /// The write.
        write: Site,
        /// Semaphore to wait on.
        semaphore: String,
    },
    /// Overwrite of a region that a DMA may still be reading.
    OverwrittenDuringCopyOut {
        /// Region.
        area: Area,
        /// The DMA's start.
        copy: Site,
        /// The write.
        write: Site,
        /// Semaphore to wait on.
        semaphore: String,
    },
    /// Deadlock: a wait that can never return.
    Deadlock {
        /// The semaphore.
        semaphore: String,
        /// The wait.
        wait: Site,
        /// Amount awaited: bytes for DMAs, else a count.
        needed: i64,
        /// Amount the semaphore holds, counting every DMA already started.
        available: i64,
        /// Signals on this semaphore, most recent last.
        signalled_by: Vec<Site>,
    },
    /// A semaphore is nonzero at kernel exit, which halts the chip.
    SemaphoreLeftOver {
        /// The semaphore.
        semaphore: String,
        /// Its value.
        count: i64,
        /// Agents that signalled it.
        signalled_by: Vec<Site>,
        /// Device that it belongs to, if there are several.
        #[serde(skip_serializing_if = "Option::is_none")]
        device: Option<usize>,
    },
    /// Deadlock between devices: each one waits, or has reached its end.
    DeviceDeadlock {
        /// Devices that wait.
        waiting: Vec<Waiter>,
        /// Devices that have reached the end of the kernel.
        finished: Vec<usize>,
    },
    /// A DMA from another device, and an access that nothing orders before or after it.
    DeviceRace {
        /// Region that the DMA writes.
        area: Area,
        /// The DMA's start.
        copy: Site,
        /// The access.
        access: Site,
        /// Whether the access writes; a read races with a write too.
        writes: bool,
        /// Semaphore of the receiving device that the DMA signals.
        semaphore: String,
    },
    /// A DMA or signal to a device that may not have entered the kernel.
    MissingBarrier {
        /// The device.
        device: usize,
        /// The DMA or signal.
        access: Site,
    },
    /// A DMA or signal to a device that does not exist.
    NoSuchDevice {
        /// Its number.
        device: i64,
        /// Number of devices.
        devices: usize,
        /// The DMA or signal.
        access: Site,
    },
    /// Read of uninitialized memory.
    ReadOfUnwritten {
        /// Region.
        area: Area,
        /// The read.
        read: Site,
    },
    /// Out-of-bounds access.
    OutOfBounds {
        /// The buffer.
        buffer: String,
        /// Dimension.
        dimension: usize,
        /// First index.
        index: i64,
        /// Number of indices.
        size: usize,
        /// Extent of the dimension.
        extent: usize,
        /// The access.
        access: Site,
    },
    /// Part of a result was never written.
    OutputNotWritten {
        /// Position of the first unwritten element.
        area: Area,
        /// Number of unwritten elements.
        elements: usize,
        /// Number of elements of the result.
        of: usize,
        /// Extents of the grid, if operands give some of them.
        #[serde(skip_serializing_if = "Option::is_none")]
        dynamic_grid: Option<Vec<usize>>,
    },
    /// The operation limit was reached.
    OutOfOperations {
        /// The limit.
        operations: u64,
        /// Next operation.
        site: Site,
    },
    /// A `cf.assert` of the kernel failed.
    AssertionFailed {
        /// Its message.
        message: String,
        /// Its site.
        site: Site,
    },
    /// The kernel's buffers do not fit in a memory of the chip.
    MemoryExceeded {
        /// `VMEM` or `SMEM`.
        memory: &'static str,
        /// Bytes of all buffers, padded to tiles.
        bytes: usize,
        /// Bytes that the kernel may use.
        limit: usize,
        /// Each buffer and its bytes, largest first.
        buffers: Vec<(String, usize)>,
        /// The allocation that exceeds the limit; `None` for the kernel's arguments.
        site: Option<Site>,
    },
    /// A grid step uses what a step with another index of a parallel dimension wrote.
    ParallelDependence {
        /// Region.
        area: Area,
        /// The parallel dimension along which the two steps differ.
        dimension: usize,
        /// The write of the earlier step.
        write: Site,
        /// The read or write of the later step.
        access: Site,
        /// Whether the later step reads; otherwise it writes a part of the same block of a result.
        reads: bool,
    },
    /// A result's block is visited again after other blocks: what the earlier steps wrote is lost.
    OutputRevisited {
        /// The result's window.
        area: Area,
        /// Block index.
        block: Vec<i64>,
        /// The last step of the earlier visit.
        left: Vec<i64>,
        /// The access, or copy out, of the later visit.
        access: Site,
    },
    /// A kernel that controls the MXUs itself takes from them what they do not hold, or leaves something in
    /// them.
    MxuMisuse {
        /// What is wrong.
        misuse: MxuMisuse,
        /// The staging register, weights or accumulators.
        part: String,
        /// The operation.
        access: Site,
        /// The push that it overwrites.
        #[serde(skip_serializing_if = "Option::is_none")]
        earlier: Option<Site>,
    },
    /// A loop that does not end.
    EndlessLoop {
        /// The loop.
        site: Site,
        /// Iterations since it last changed memory or a semaphore.
        iterations: u64,
    },
}

/// A defect and how often it occurred.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// First occurrence.
    #[serde(flatten)]
    pub trouble: Trouble,
    /// Number of occurrences at the same lines.
    pub times: usize,
}

impl Site {
    pub(crate) fn new(agent: Agent, place: Option<Place>, op: &str, step: &[i64]) -> Self {
        let line = place.map(|place| place.line);
        Self { agent, line, source: Vec::new(), op: op.to_owned(), step: step.to_vec(), device: None }
    }

    /// Adds the source of its line.
    pub(crate) fn locate(&mut self, sources: &HashMap<u32, SourceStack>) {
        if let Some(source) = self.line.and_then(|line| sources.get(&line)) {
            self.source = source.to_vec();
        }
    }
}

impl Waiter {
    fn sites_mut(&mut self) -> impl Iterator<Item = &mut Site> {
        std::iter::once(&mut self.wait).chain(&mut self.signalled_by)
    }
}

impl Trouble {
    /// Lines that distinguish two defects of one kind.
    pub fn lines(&self) -> Vec<Option<u32>> {
        match self {
            Self::ReadDuringCopyIn { copy, read, .. } => vec![read.line, copy.line],
            Self::WriteDuringCopyIn { copy, write, .. }
            | Self::OverwrittenDuringCopyOut { copy, write, .. } => {
                vec![write.line, copy.line]
            }
            Self::Deadlock { wait, .. } => vec![wait.line],
            Self::DeviceDeadlock { waiting, .. } => waiting.iter().map(|waiter| waiter.wait.line).collect(),
            Self::DeviceRace { copy, access, .. } => vec![access.line, copy.line],
            Self::MissingBarrier { access, .. } | Self::NoSuchDevice { access, .. } => vec![access.line],
            Self::SemaphoreLeftOver { signalled_by, .. } => {
                signalled_by.iter().map(|site| site.line).collect()
            }
            Self::ReadOfUnwritten { read, .. } => vec![read.line],
            Self::OutOfBounds { access, .. } => vec![access.line],
            Self::OutputNotWritten { .. } => Vec::new(),
            Self::AssertionFailed { site, .. }
            | Self::OutOfOperations { site, .. }
            | Self::EndlessLoop { site, .. } => vec![site.line],
            Self::MemoryExceeded { site, .. } => site.iter().map(|site| site.line).collect(),
            Self::ParallelDependence { write, access, .. } => vec![access.line, write.line],
            Self::OutputRevisited { access, .. } | Self::MxuMisuse { access, .. } => vec![access.line],
        }
    }

    /// The operations concerned.
    fn sites_mut(&mut self) -> Vec<&mut Site> {
        match self {
            Self::ReadDuringCopyIn { copy, read, .. } => vec![read, copy],
            Self::WriteDuringCopyIn { copy, write, .. }
            | Self::OverwrittenDuringCopyOut { copy, write, .. } => vec![write, copy],
            Self::Deadlock { wait, signalled_by, .. } => {
                [wait].into_iter().chain(signalled_by.iter_mut()).collect()
            }
            Self::DeviceDeadlock { waiting, .. } => waiting.iter_mut().flat_map(Waiter::sites_mut).collect(),
            Self::DeviceRace { copy, access, .. } => vec![access, copy],
            Self::MissingBarrier { access, .. } | Self::NoSuchDevice { access, .. } => vec![access],
            Self::SemaphoreLeftOver { signalled_by, .. } => signalled_by.iter_mut().collect(),
            Self::ReadOfUnwritten { read, .. } => vec![read],
            Self::OutOfBounds { access, .. } => vec![access],
            Self::OutputNotWritten { .. } => Vec::new(),
            Self::AssertionFailed { site, .. }
            | Self::OutOfOperations { site, .. }
            | Self::EndlessLoop { site, .. } => vec![site],
            Self::MemoryExceeded { site, .. } => site.iter_mut().collect(),
            Self::ParallelDependence { write, access, .. } => vec![access, write],
            Self::OutputRevisited { access, .. } => vec![access],
            Self::MxuMisuse { access, earlier, .. } => [access].into_iter().chain(earlier).collect(),
        }
    }

    /// Device of the region or semaphore concerned.
    fn device_mut(&mut self) -> Option<&mut Option<usize>> {
        match self {
            Self::ReadDuringCopyIn { area, .. }
            | Self::WriteDuringCopyIn { area, .. }
            | Self::OverwrittenDuringCopyOut { area, .. }
            | Self::ReadOfUnwritten { area, .. }
            | Self::DeviceRace { area, .. }
            | Self::OutputNotWritten { area, .. } => Some(&mut area.device),
            Self::SemaphoreLeftOver { device, .. } => Some(device),
            _ => None,
        }
    }

    /// Buffer or semaphore concerned.
    pub fn subject(&self) -> &str {
        match self {
            Self::ReadDuringCopyIn { area, .. }
            | Self::WriteDuringCopyIn { area, .. }
            | Self::OverwrittenDuringCopyOut { area, .. }
            | Self::ReadOfUnwritten { area, .. }
            | Self::ParallelDependence { area, .. }
            | Self::OutputRevisited { area, .. }
            | Self::DeviceRace { area, .. }
            | Self::OutputNotWritten { area, .. } => &area.buffer,
            Self::DeviceDeadlock { waiting, .. } => waiting.first().map_or("", |waiter| &waiter.semaphore),
            Self::MissingBarrier { access, .. } | Self::NoSuchDevice { access, .. } => &access.op,
            Self::Deadlock { semaphore, .. } | Self::SemaphoreLeftOver { semaphore, .. } => semaphore,
            Self::OutOfBounds { buffer, .. } => buffer,
            Self::MxuMisuse { part, .. } => part,
            Self::AssertionFailed { message, .. } => message,
            Self::OutOfOperations { site, .. } | Self::EndlessLoop { site, .. } => &site.op,
            Self::MemoryExceeded { memory, .. } => memory,
        }
    }

    fn same_cause(&self, other: &Self) -> bool {
        let misuse = |trouble: &Self| match trouble {
            Self::MxuMisuse { misuse, earlier, .. } => {
                Some((*misuse, earlier.as_ref().map(|site| site.line)))
            }
            _ => None,
        };
        std::mem::discriminant(self) == std::mem::discriminant(other)
            && misuse(self) == misuse(other)
            && self.subject() == other.subject()
            && self.lines() == other.lines()
    }
}

/// Deduplicated findings.
#[derive(Debug, Default)]
pub(crate) struct Findings(pub(crate) Vec<Finding>);

impl Findings {
    pub(crate) fn add(&mut self, trouble: Trouble) {
        match self.0.iter_mut().find(|finding| finding.trouble.same_cause(&trouble)) {
            Some(known) => known.times += 1,
            None => self.0.push(Finding { trouble, times: 1 }),
        }
    }

    /// Adds the findings of another device; one with the same cause is counted.
    pub(crate) fn merge(&mut self, findings: Vec<Finding>) {
        for finding in findings {
            match self.0.iter_mut().find(|known| known.trouble.same_cause(&finding.trouble)) {
                Some(known) => known.times += finding.times,
                None => self.0.push(finding),
            }
        }
    }

    /// Names the device of every finding that does not name one yet.
    pub(crate) fn name_device(&mut self, device: usize) {
        for finding in &mut self.0 {
            for site in finding.trouble.sites_mut() {
                site.device.get_or_insert(device);
            }
            if let Some(own) = finding.trouble.device_mut() {
                own.get_or_insert(device);
            }
        }
    }

    /// Returns the findings, with the source of each line.
    pub(crate) fn located(self, sources: &HashMap<u32, SourceStack>) -> Vec<Finding> {
        let mut findings = self.0;
        for site in findings.iter_mut().flat_map(|finding| finding.trouble.sites_mut()) {
            site.locate(sources);
        }
        findings
    }
}
