//! Several devices: one machine each, links between them, and the order that signals and DMAs establish.
//!
//! Every device runs in a thread of its own, because a machine cannot be suspended in the middle of an
//! operation, but only the one that holds the [`Fabric`] runs. It hands the fabric on when it has to wait, so
//! a schedule is deterministic. The fabric carries the memory of all devices that do not run, which is how a
//! DMA reaches it.
//!
//! Vector clocks decide what is ordered, whatever the schedule was: a signal, or a DMA, makes what its sender
//! did before it known to the device that waits for it.

mod clock;
mod history;
mod link;
mod manual;
mod race;
mod remote;
mod run;
mod sharding;
mod wait;

pub(crate) use history::Origin;
pub(crate) use link::Link;
pub(in crate::interpret) use manual::manual_computation;
pub(crate) use remote::RemoteTransfer;
pub(crate) use run::simulate;
pub use sharding::mesh_devices;

use std::{collections::BTreeMap, sync::Arc};

use self::{clock::VectorClock, history::History, remote::RemoteCopy};
use super::{
    copies::{Copies, SemaphoreId},
    finding::{Site, Waiter},
    memory::Buffer,
};

/// Name of the barrier semaphore in findings.
pub(crate) const BARRIER: &str = "the barrier semaphore";

/// A signal that a wait may consume.
#[derive(Debug)]
struct Signal {
    amount: i64,
    from: usize,
    /// Clock of the sender.
    clock: VectorClock,
    /// Sender's time on the modelled clock.
    at: f64,
}

impl Signal {
    /// Returns whether this signal is sent only after `other` was.
    fn follows(&self, other: &Self) -> bool {
        self.clock.knows(other.from, other.clock.of(other.from))
    }
}

/// A signal to a semaphore of a scope that the device has not entered yet.
#[derive(Debug)]
struct EarlySignal {
    /// Name of the semaphores.
    name: String,
    index: usize,
    signal: Signal,
    site: Site,
}

/// What a device is doing.
#[derive(Debug)]
enum State {
    /// It can go on.
    Ready,
    /// It waits for an amount on a semaphore.
    Waiting(SemaphoreId, Waiter),
    /// It waits for all devices to come to the same point: the start or the end of a kernel.
    Meeting,
    /// Its thread has ended.
    Ended,
}

/// One device, while it does not run.
#[derive(Debug)]
struct Device {
    buffers: Vec<Buffer>,
    copies: Copies,
    clock: VectorClock,
    history: History,
    /// Signals not known to be consumed, oldest first.
    signals: BTreeMap<SemaphoreId, Vec<Signal>>,
    early: Vec<EarlySignal>,
    state: State,
    /// Points at which it has met the others.
    meetings: u64,
    /// Epoch in which it entered the kernel.
    entered: u64,
    /// Buffers of the kernel's arguments: these have the same numbers on all devices.
    arguments: usize,
    /// The tensor that it shows to the others in a collective.
    shown: Option<Arc<Vec<u8>>>,
    /// Whether it stopped at a finding.
    halted: bool,
    operations: u64,
}

/// All devices of a run, and the DMAs between them.
#[derive(Debug)]
pub(crate) struct Fabric {
    devices: Vec<Device>,
    /// DMAs whose completion has not been observed on both sides, by number.
    remote: BTreeMap<usize, RemoteCopy>,
    /// DMAs between devices started so far.
    started: usize,
    /// Whether the next device is sought downwards.
    descending: bool,
    /// Whether devices that wait are to stop.
    stopped: bool,
}

impl Fabric {
    fn new(devices: usize, descending: bool) -> Self {
        let device = |_| Device {
            buffers: Vec::new(),
            copies: Copies::default(),
            clock: VectorClock::new(devices),
            history: History::default(),
            signals: BTreeMap::new(),
            early: Vec::new(),
            state: State::Ready,
            meetings: 0,
            entered: 0,
            arguments: 0,
            shown: None,
            halted: false,
            operations: 0,
        };
        Self {
            devices: (0..devices).map(device).collect(),
            remote: BTreeMap::new(),
            started: 0,
            descending,
            stopped: false,
        }
    }

    /// The next device after `device` that can go on, or `device` itself.
    fn next_after(&self, device: usize) -> Option<usize> {
        let count = self.devices.len();
        let step = if self.descending { count - 1 } else { 1 };
        (1..=count).map(|turn| (device + turn * step) % count).find(|&next| self.can_run(next))
    }

    fn can_run(&self, number: usize) -> bool {
        let device = &self.devices[number];
        match &device.state {
            State::Ready => true,
            State::Ended => false,
            State::Waiting(id, waiter) => self.stopped || self.within_reach(number, *id) >= waiter.needed,
            State::Meeting => self
                .devices
                .iter()
                .all(|other| matches!(other.state, State::Ended) || other.meetings >= device.meetings),
        }
    }

    /// Amount of a parked device's semaphore, with DMAs between devices that are in flight.
    fn within_reach(&self, number: usize, id: SemaphoreId) -> i64 {
        let due = self.remote.values().filter(|copy| copy.is_due(number, id)).map(|copy| copy.bytes);
        due.fold(self.devices[number].copies.count(id), i64::saturating_add)
    }

    /// Devices that wait, and those that have reached the end of the kernel.
    fn stuck(&self) -> (Vec<Waiter>, Vec<usize>) {
        let (mut waiting, mut finished) = (Vec::new(), Vec::new());
        for (number, device) in self.devices.iter().enumerate() {
            match &device.state {
                State::Waiting(id, waiter) => {
                    let available = device.copies.count(*id);
                    let signalled_by = device.copies.recent(*id);
                    waiting.push(Waiter { available, signalled_by, ..waiter.clone() });
                }
                _ if !device.halted => finished.push(number),
                _ => {}
            }
        }
        (waiting, finished)
    }

    /// Operations of all devices but one.
    fn operations_beside(&self, number: usize) -> u64 {
        let others = self.devices.iter().enumerate().filter(|(other, _)| *other != number);
        others.fold(0, |all, (_, device)| all.saturating_add(device.operations))
    }
}
