//! How devices take turns.

use std::sync::{
    Arc,
    mpsc::{Receiver, SendError, Sender, channel},
};

use super::{Device, Fabric, State};
use crate::interpret::{
    array::Array,
    finding::Trouble,
    machine::{Machine, Stop},
};

/// A device's connection to the others.
pub(crate) struct Link {
    /// Number of the device.
    pub(super) device: usize,
    pub(super) devices: usize,
    /// Everything else; `None` while another device runs.
    pub(super) fabric: Option<Box<Fabric>>,
    inbox: Receiver<Box<Fabric>>,
    /// Where to hand the fabric to: the devices.
    peers: Vec<Sender<Box<Fabric>>>,
}

impl Link {
    /// A single device.
    pub(crate) fn alone() -> Self {
        let (sender, inbox) = channel();
        let fabric = Some(Box::new(Fabric::new(1, false)));
        Self { device: 0, devices: 1, fabric, inbox, peers: vec![sender] }
    }

    /// Links of `devices` devices. The first in the order of the schedule holds the fabric.
    pub(super) fn all(devices: usize, descending: bool) -> Vec<Self> {
        let (peers, inboxes): (Vec<_>, Vec<_>) = (0..devices).map(|_| channel()).unzip();
        let mut links: Vec<Self> = inboxes
            .into_iter()
            .enumerate()
            .map(|(device, inbox)| Self { device, devices, fabric: None, inbox, peers: peers.clone() })
            .collect();
        let first = if descending { devices - 1 } else { 0 };
        links[first].fabric = Some(Box::new(Fabric::new(devices, descending)));
        links
    }

    /// The device's number, if there are several.
    pub(crate) fn name(&self) -> Option<usize> {
        (self.devices > 1).then_some(self.device)
    }

    pub(crate) fn device(&self) -> usize {
        self.device
    }

    pub(super) fn fabric(&self) -> &Fabric {
        self.fabric.as_ref().expect("a device runs only while it holds the fabric")
    }

    pub(super) fn fabric_mut(&mut self) -> &mut Fabric {
        self.fabric.as_mut().expect("a device runs only while it holds the fabric")
    }

    /// Waits for the first turn.
    pub(super) fn begin(&mut self) {
        if self.fabric.is_none() {
            self.fabric = self.inbox.recv().ok();
        }
    }

    /// Hands the fabric to the next device that can run, and waits for it to come back.
    fn hand_on(&mut self) {
        self.pass();
        self.begin();
    }

    /// Hands the fabric to the next device, unless that is this one.
    fn pass(&mut self) {
        while let Some(fabric) = self.fabric.take() {
            match fabric.next_after(self.device) {
                Some(next) if next != self.device => match self.peers[next].send(fabric) {
                    Ok(()) => return,
                    // Its thread could not be started.
                    Err(SendError(fabric)) => {
                        let lost = &mut self.fabric.insert(fabric).devices[next];
                        (lost.state, lost.halted) = (State::Ended, true);
                    }
                },
                _ => {
                    self.fabric = Some(fabric);
                    return;
                }
            }
        }
    }
}

/// Ends the device's part, also when its thread panics: the others must not wait for ever.
impl Drop for Link {
    fn drop(&mut self) {
        let Some(fabric) = &mut self.fabric else { return };
        let own = &mut fabric.devices[self.device];
        own.state = State::Ended;
        own.halted |= std::thread::panicking();
        fabric.stopped |= fabric.next_after(self.device).is_none();
        self.pass();
    }
}

impl Machine<'_> {
    /// Lets other devices run, until this one can go on.
    pub(super) fn switch(&mut self, state: State) -> Result<(), Stop> {
        let operations = self.operations();
        let Some(link) = &mut self.link else { return Ok(()) };
        let device = link.device;
        let fabric = link.fabric_mut();
        let own = &mut fabric.devices[device];
        own.buffers = std::mem::take(&mut self.buffers);
        own.copies = std::mem::take(&mut self.copies);
        (own.state, own.operations) = (state, operations);
        if fabric.next_after(device).is_none() {
            let (waiting, finished) = fabric.stuck();
            // If a device was halted by a finding, the others wait in vain because of it.
            if !fabric.devices.iter().any(|device| device.halted) {
                self.findings.add(Trouble::DeviceDeadlock { waiting, finished });
            }
            fabric.stopped = true;
        }
        // What the others do may end a loop that polls.
        self.changes += u64::from(fabric.next_after(device) != Some(device));
        link.hand_on();
        let fabric = link.fabric_mut();
        self.elsewhere = fabric.operations_beside(device);
        let stopped = fabric.stopped;
        let own = &mut fabric.devices[device];
        self.buffers = std::mem::take(&mut own.buffers);
        self.copies = std::mem::take(&mut own.copies);
        let waited = matches!(std::mem::replace(&mut own.state, State::Ready), State::Waiting(..));
        if waited && stopped { Err(Stop::Halted) } else { Ok(()) }
    }

    /// Lets other devices run once.
    pub(crate) fn yield_turn(&mut self) -> Result<(), Stop> {
        match self.link {
            Some(_) => self.switch(State::Ready),
            None => Ok(()),
        }
    }

    /// Waits for all devices to come to this point.
    fn meet(&mut self) -> Result<(), Stop> {
        if let Some(link) = &mut self.link {
            let device = link.device;
            link.fabric_mut().devices[device].meetings += 1;
        }
        self.switch(State::Meeting)
    }

    /// Shows a tensor to all devices, and returns the bytes of each one's.
    pub(crate) fn exchange(&mut self, own: &Array) -> Result<Vec<Arc<Vec<u8>>>, Stop> {
        let bytes = Arc::new(own.all_bytes().to_vec());
        let Some(link) = &mut self.link else { return Ok(vec![bytes]) };
        let device = link.device;
        link.fabric_mut().devices[device].shown = Some(bytes);
        self.meet()?;
        let Some(link) = &self.link else { return Ok(Vec::new()) };
        // A device that has ended before was halted by a finding.
        let shown = |device: &Device| match device.state {
            State::Ended => Err(Stop::Halted),
            _ => device.shown.clone().ok_or(Stop::Halted),
        };
        let all = link.fabric().devices.iter().map(shown).collect::<Result<Vec<_>, _>>()?;
        // Nobody shows the next one before all have seen this one.
        self.meet()?;
        Ok(all)
    }

    /// Enters a kernel once its arguments are allocated.
    ///
    /// A kernel that does not use the barrier semaphore gets a barrier in front of it from the compiler.
    pub(crate) fn enter_kernel(&mut self, has_barrier: bool) -> Result<(), Stop> {
        let Some(link) = &mut self.link else { return Ok(()) };
        let (device, devices) = (link.device, link.devices);
        let arguments = self.buffers.len();
        let own = &mut link.fabric_mut().devices[device];
        own.clock.release(device);
        own.entered = own.clock.of(device);
        (own.arguments, own.halted) = (arguments, false);
        own.history.release(0);
        own.signals.clear();
        self.meet()?;
        if has_barrier {
            return Ok(());
        }
        let Some(link) = &mut self.link else { return Ok(()) };
        for other in (0..devices).filter(|&other| other != device) {
            let entered = link.fabric().devices[other].entered;
            link.fabric_mut().devices[device].clock.learn(other, entered);
        }
        link.fabric_mut().devices[device].clock.release(device);
        Ok(())
    }

    /// Leaves a kernel: waits until every device has come to its end, since others may still signal this one.
    pub(crate) fn leave_kernel(&mut self, completed: bool) -> Result<(), Stop> {
        let Some(link) = &mut self.link else { return Ok(()) };
        let device = link.device;
        link.fabric_mut().devices[device].halted = !completed;
        self.meet()
    }
}
