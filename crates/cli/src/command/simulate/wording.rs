//! Findings in words: what is wrong, what to do about it, and the operations concerned.

use octile_mosaic::interpret::{Area, MxuMisuse, Range, Site, Trouble, Waiter};

/// A finding in words.
pub(super) struct Wording<'t> {
    /// The kind of defect, such as RACE.
    pub title: &'static str,
    /// What is wrong.
    pub says: String,
    /// What to do, where it is certain.
    pub remedy: Option<String>,
    /// The operations concerned with their roles; the one to look at comes first.
    pub sites: Vec<(&'static str, &'t Site)>,
}

impl<'t> Wording<'t> {
    fn new(title: &'static str, says: String, sites: Vec<(&'static str, &'t Site)>) -> Self {
        Self { title, says, remedy: None, sites }
    }

    fn with_remedy(self, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..self }
    }

    /// Describes a defect.
    pub(super) fn of(trouble: &'t Trouble) -> Self {
        match trouble {
            Trouble::ReadDuringCopyIn { area, copy, read, semaphore } => {
                let says = format!("{} is read while a DMA into it may be in flight", part(area));
                let sites = vec![("read", read), ("DMA", copy)];
                Self::new("RACE", says, sites).with_remedy(format!("wait on {semaphore} first"))
            }
            Trouble::WriteDuringCopyIn { area, copy, write, semaphore } => {
                let says = format!("{} is written while a DMA into it may be in flight", part(area));
                let sites = vec![("write", write), ("DMA", copy)];
                Self::new("RACE", says, sites).with_remedy(format!("wait on {semaphore} first"))
            }
            Trouble::OverwrittenDuringCopyOut { area, copy, write, semaphore } => {
                let says = format!("{} is overwritten while a DMA out of it may be in flight", part(area));
                let sites = vec![("write", write), ("DMA", copy)];
                Self::new("RACE", says, sites).with_remedy(format!("wait on {semaphore} first"))
            }
            Trouble::Deadlock { semaphore, wait, needed, available, signalled_by } => {
                let mut sites = vec![("wait", wait)];
                sites.extend(signalled_by.iter().map(|site| ("signal", site)));
                let says = progress(semaphore, wait, *needed, *available, signalled_by);
                Self::new("DEADLOCK", says, sites)
            }
            Trouble::SemaphoreLeftOver { semaphore, count, signalled_by, device } => {
                let of = of_device(*device);
                let says = format!(
                    "{semaphore}{of} is {count} when the kernel ends: a DMA or signal is not waited for"
                );
                let sites = signalled_by.iter().map(|site| ("signal", site)).collect();
                Self::new("SEMAPHORE", says, sites)
                    .with_remedy(format!("wait on {semaphore} before the kernel ends"))
            }
            Trouble::DeviceDeadlock { waiting, finished } => device_deadlock(waiting, finished),
            Trouble::DeviceRace { area, copy, access, writes, semaphore } => {
                let verb = if *writes { "written" } else { "read" };
                let (from, to) = (of_device(copy.device), of_device(area.device));
                let says = format!("{} is {verb} while a DMA{from} may be writing it", part(area));
                let role = if *writes { "write" } else { "read" };
                Self::new("RACE", says, vec![(role, access), ("DMA", copy)]).with_remedy(format!(
                    "wait on {semaphore}{to} before the access, or signal from there that the memory is free \
                     and wait for that signal before the DMA"
                ))
            }
            Trouble::MissingBarrier { device, access } => {
                let says = format!("device {device} may not have entered the kernel");
                Self::new("MISSING BARRIER", says, vec![("access", access)])
                    .with_remedy("wait for its signal on the barrier semaphore first")
            }
            Trouble::NoSuchDevice { device, devices, access } => {
                let says = format!("{device} is addressed, but there are {devices}");
                Self::new("NO SUCH DEVICE", says, vec![("access", access)])
                    .with_remedy("run more with --devices N, or correct the device id")
            }
            Trouble::ReadOfUnwritten { area, read } => {
                let says = format!("{} is read before all of it is written", part(area));
                Self::new("UNINITIALIZED", says, vec![("read", read)])
            }
            Trouble::OutOfBounds { buffer, dimension, index, size, extent, access } => {
                let says = format!(
                    "{size} elements from index {index} in dimension {dimension} of {buffer}, whose extent is \
                     {extent}"
                );
                Self::new("OUT OF BOUNDS", says, vec![("access", access)])
            }
            Trouble::OutputNotWritten { area, elements, of, dynamic_grid } => {
                let first = part(area);
                let says = format!(
                    "{elements} of {of} elements {} never written, the first at {first}",
                    if *elements == 1 { "is" } else { "are" }
                );
                let wording = Self::new("UNWRITTEN RESULT", says, Vec::new());
                match dynamic_grid {
                    Some(grid) => wording.with_remedy(format!(
                        "the grid is dynamic, and was {grid:?} here: pass the operand that gives its extents \
                         with --tensors"
                    )),
                    None => wording,
                }
            }
            Trouble::OutOfOperations { operations, site } => {
                let says = format!("stopped after {operations} operations");
                Self::new("ENDLESS", says, vec![("next", site)])
                    .with_remedy("raise the limit with --max-operations N if the kernel ends")
            }
            Trouble::AssertionFailed { message, site } => {
                Self::new("ASSERTION", message.clone(), vec![("assert", site)])
            }
            Trouble::MemoryExceeded { memory, bytes, limit, buffers, site } => {
                let title = if *memory == "SMEM" { "OUT OF SMEM" } else { "OUT OF VMEM" };
                let largest = buffers.iter().take(3).map(|(name, bytes)| format!("{name} {bytes}"));
                let largest: Vec<String> = largest.collect();
                let says = format!(
                    "the kernel needs {bytes} bytes of {memory}, the limit is {limit}; largest: {}",
                    largest.join(", ")
                );
                Self::new(title, says, site.iter().map(|site| ("allocate", site)).collect())
            }
            Trouble::ParallelDependence { area, dimension, write, access, reads } => {
                let verb = if *reads { "reads" } else { "overwrites" };
                let says = format!(
                    "a step {verb} {} of another step along parallel grid dimension {dimension}",
                    part(area)
                );
                let role = if *reads { "read" } else { "write" };
                Self::new("PARALLEL", says, vec![(role, access), ("earlier", write)])
                    .with_remedy("make the dimension \"arbitrary\"")
            }
            Trouble::OutputRevisited { area, block, left, access } => {
                let says = format!(
                    "block {block:?} of {} was left in step {left:?} and is visited again: what was written \
                     before is lost",
                    part(area)
                );
                Self::new("REVISITED", says, vec![("again", access)])
                    .with_remedy("visit each block of a result in consecutive steps")
            }
            Trouble::MxuMisuse { misuse, part, access, earlier } => {
                mxu_misuse(*misuse, part, access, earlier.as_ref())
            }
            Trouble::EndlessLoop { site, iterations } => {
                let says = match iterations {
                    1 => "an iteration of this loop changes nothing".to_owned(),
                    many => format!("{many} iterations of this loop changed no memory and no semaphore"),
                };
                Self::new("ENDLESS", says, vec![("loop", site)])
            }
        }
    }

    /// The whole sentence: `RACE: x is read while a DMA into it may be in flight; wait on s[0] first`.
    pub(super) fn sentence(&self) -> String {
        let remedy = self.remedy.as_ref().map(|remedy| format!("; {remedy}")).unwrap_or_default();
        format!("{}: {}{remedy}", self.title, self.says)
    }
}

/// Names the device, if there are several.
pub(super) fn of_device(device: Option<usize>) -> String {
    device.map(|device| format!(" of device {device}")).unwrap_or_default()
}

/// A region: `x[1, 0:128]`.
fn part(area: &Area) -> String {
    let range = |range: &Range| match range.len {
        1 => range.start.to_string(),
        len => format!("{}:{}", range.start, range.start + len),
    };
    let ranges = match &area.ranges {
        Some(ranges) if !ranges.is_empty() => {
            let ranges: Vec<String> = ranges.iter().map(range).collect();
            format!("[{}]", ranges.join(", "))
        }
        _ => String::new(),
    };
    format!("{}{ranges}{}", area.buffer, of_device(area.device))
}

/// How far a wait got: `the wait on s[0] got 24576 of 32768 bytes`.
fn progress(semaphore: &str, wait: &Site, needed: i64, available: i64, signalled_by: &[Site]) -> String {
    // A DMA semaphore counts bytes.
    let unit = if wait.op.contains("dma") { "bytes" } else { "signals" };
    let who = if signalled_by.is_empty() { "; nothing has signalled it" } else { "" };
    format!("the wait on {semaphore} got {available} of {needed} {unit}, and no more will come{who}")
}

/// What a kernel takes from the MXUs that they do not hold, or leaves in them.
fn mxu_misuse<'t>(misuse: MxuMisuse, part: &str, access: &'t Site, earlier: Option<&'t Site>) -> Wording<'t> {
    let (role, says, remedy) = match misuse {
        MxuMisuse::StagingFull => (
            "push",
            format!("{part} still holds weights"),
            "load them with matmul_acc_lhs first, or push to the other staging register",
        ),
        MxuMisuse::StagingEmpty => {
            ("multiply", format!("{part} holds no weights to load"), "push weights first")
        }
        MxuMisuse::NoWeights => {
            ("multiply", format!("{part} has no weights to multiply by"), "load them with load_staged_rhs")
        }
        MxuMisuse::NothingAdded => {
            ("pop", format!("nothing was added to {part}, which are popped"), "pop what was accumulated")
        }
        MxuMisuse::WeightsLeft => {
            ("push", format!("{part} holds weights when the kernel ends"), "load them with matmul_acc_lhs")
        }
        MxuMisuse::SumsLeft => {
            ("multiply", format!("{part} hold sums when the kernel ends"), "pop them with matmul_pop")
        }
    };
    let earlier = earlier.map(|earlier| ("earlier", earlier));
    let sites = [(role, access)].into_iter().chain(earlier).collect();
    Wording::new("MXU", says, sites).with_remedy(remedy)
}

/// Every waiting device, what it waits for, and how far it got.
fn device_deadlock<'t>(waiting: &'t [Waiter], finished: &[usize]) -> Wording<'t> {
    let mut says = format!("{} wait for one another", count(waiting.len(), "device"));
    if !finished.is_empty() {
        let names: Vec<String> = finished.iter().map(usize::to_string).collect();
        says += &format!("; finished: {}", names.join(", "));
    }
    let mut sites = Vec::new();
    for Waiter { semaphore, wait, needed, available, signalled_by } in waiting {
        let device = wait.device.map(|device| format!("device {device}: ")).unwrap_or_default();
        let progress = progress(semaphore, wait, *needed, *available, signalled_by);
        says += &format!("\n     {device}{progress}");
        sites.push(("wait", wait));
        sites.extend(signalled_by.iter().map(|site| ("signal", site)));
    }
    Wording::new("DEADLOCK BETWEEN DEVICES", says, sites)
}

fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use octile_mosaic::interpret::Agent;

    use super::*;

    fn wait(op: &str, device: Option<usize>) -> Site {
        Site { agent: Agent::Core, line: None, source: vec![], op: op.to_owned(), step: vec![], device }
    }

    #[test]
    fn a_deadlock_says_how_far_the_wait_got() {
        let deadlock = |op: &str, signalled_by: Vec<Site>| {
            let (semaphore, wait) = ("s[0]".to_owned(), wait(op, None));
            let trouble = Trouble::Deadlock { semaphore, wait, needed: 3, available: 2, signalled_by };
            Wording::of(&trouble).sentence()
        };
        assert_eq!(
            deadlock("tpu.wait_dma2", vec![]),
            "DEADLOCK: the wait on s[0] got 2 of 3 bytes, and no more will come; nothing has signalled it"
        );
        assert_eq!(
            deadlock("tpu.sem_wait", vec![wait("tpu.sem_signal", None)]),
            "DEADLOCK: the wait on s[0] got 2 of 3 signals, and no more will come"
        );
    }

    #[test]
    fn misuse_of_an_mxu_says_what_to_do() {
        let misuse = |misuse: MxuMisuse, part: &str| {
            let (part, access) = (part.to_owned(), wait("tpu.matmul_pop", None));
            Wording::of(&Trouble::MxuMisuse { misuse, part, access, earlier: None }).sentence()
        };
        let register = "staging register 1 of MXU 0";
        assert_eq!(
            misuse(MxuMisuse::StagingFull, register),
            "MXU: staging register 1 of MXU 0 still holds weights; load them with matmul_acc_lhs first, or push \
             to the other staging register"
        );
        assert_eq!(
            misuse(MxuMisuse::WeightsLeft, register),
            "MXU: staging register 1 of MXU 0 holds weights when the kernel ends; load them with \
             matmul_acc_lhs"
        );
        assert_eq!(
            misuse(MxuMisuse::NothingAdded, "accumulators 0 to 63 of MXU 1"),
            "MXU: nothing was added to accumulators 0 to 63 of MXU 1, which are popped; pop what was \
             accumulated"
        );
        assert_eq!(
            misuse(MxuMisuse::NoWeights, "MXU 0"),
            "MXU: MXU 0 has no weights to multiply by; load them with load_staged_rhs"
        );
    }

    #[test]
    fn a_deadlock_between_devices_names_every_waiter() {
        let waiter = |device| Waiter {
            semaphore: "recv".to_owned(),
            wait: wait("tpu.sem_wait", Some(device)),
            needed: 1,
            available: 0,
            signalled_by: vec![],
        };
        let trouble = Trouble::DeviceDeadlock { waiting: vec![waiter(0), waiter(2)], finished: vec![1, 3] };
        insta::assert_snapshot!(Wording::of(&trouble).sentence(), @r"
        DEADLOCK BETWEEN DEVICES: 2 devices wait for one another; finished: 1, 3
             device 0: the wait on recv got 0 of 1 signals, and no more will come; nothing has signalled it
             device 2: the wait on recv got 0 of 1 signals, and no more will come; nothing has signalled it
        ");
    }
}
