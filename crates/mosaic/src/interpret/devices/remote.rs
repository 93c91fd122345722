//! DMAs and signals from one device to another.

use super::{BARRIER, EarlySignal, Origin, Signal, VectorClock};
use crate::{
    interpret::{
        copies::{Copies, SemaphoreId},
        finding::{Agent, Site, Trouble},
        machine::{Machine, Stop},
        memory::Buffer,
        program::Step,
        view::{Region, View},
    },
    limits::{MAX_COPIES, MAX_SIGNALS},
};

/// A DMA from one device to another, or to itself.
#[derive(Debug)]
pub(super) struct RemoteCopy {
    pub(super) from: usize,
    pub(super) to: usize,
    source: View,
    target: View,
    /// Region read on the sender; `None` once it is out of scope.
    pub(super) reads: Option<Region>,
    /// Region written on the receiver; `None` before and after it is in scope.
    pub(super) writes: Option<Region>,
    /// Name of the target, if the receiver has not entered its scope yet.
    early_target: Option<String>,
    /// Semaphore of the sender.
    pub(super) send: SemaphoreId,
    /// Semaphore of the receiver.
    pub(super) receive: SemaphoreId,
    /// Name of the receiver's semaphore, if it has not entered its scope yet.
    early_receive: Option<String>,
    pub(super) bytes: i64,
    pub(super) origin: Origin,
    /// Sender's clock at the start.
    pub(super) clock: VectorClock,
    landed: bool,
    /// Epoch in which the sender observed that the source has been read.
    pub(super) sent: Option<u64>,
    /// Epoch in which the receiver observed completion.
    pub(super) received: Option<u64>,
    /// Whether a race with it has been reported.
    pub(super) forgiven: bool,
    /// Completion time on the sender's modelled clock.
    pub(super) ends: f64,
}

impl RemoteCopy {
    /// Returns whether the DMA can still signal a semaphore of a device.
    pub(super) fn is_due(&self, device: usize, id: SemaphoreId) -> bool {
        let here = self.early_target.is_none() && !self.landed;
        here && (self.signals_receiver(device, id) || self.signals_sender(device, id))
    }

    pub(super) fn signals_receiver(&self, device: usize, id: SemaphoreId) -> bool {
        self.to == device && self.receive == id && self.early_receive.is_none()
    }

    pub(super) fn signals_sender(&self, device: usize, id: SemaphoreId) -> bool {
        self.from == device && self.send == id
    }

    /// Returns whether an observer with this clock comes after the write.
    pub(super) fn is_written(&self, clock: &VectorClock) -> bool {
        self.received.is_some_and(|epoch| clock.knows(self.to, epoch))
    }

    /// Returns whether an observer with this clock comes after the read.
    pub(super) fn is_read(&self, clock: &VectorClock) -> bool {
        self.is_written(clock) || self.sent.is_some_and(|epoch| clock.knows(self.from, epoch))
    }

    pub(super) fn source(&self) -> &View {
        &self.source
    }

    pub(super) fn target(&self) -> &View {
        &self.target
    }

    pub(super) fn reads(&self, buffer: usize) -> Option<&Region> {
        self.reads.as_ref().filter(|_| self.source.buffer == buffer)
    }

    pub(super) fn writes(&self, buffer: usize) -> Option<&Region> {
        self.writes.as_ref().filter(|_| self.target.buffer == buffer)
    }
}

/// Operands of a DMA to another device.
pub(crate) struct RemoteTransfer {
    pub(crate) source: View,
    pub(crate) target: View,
    pub(crate) send: SemaphoreId,
    pub(crate) receive: SemaphoreId,
}

impl Machine<'_> {
    /// Memory of a device.
    pub(super) fn buffers_of(&self, device: usize) -> &Vec<Buffer> {
        match &self.link {
            Some(link) if link.device != device => &link.fabric().devices[device].buffers,
            _ => &self.buffers,
        }
    }

    fn buffers_of_mut(&mut self, device: usize) -> &mut Vec<Buffer> {
        match &mut self.link {
            Some(link) if link.device != device => &mut link.fabric_mut().devices[device].buffers,
            _ => &mut self.buffers,
        }
    }

    /// Semaphores of a device.
    fn copies_of_mut(&mut self, device: usize) -> &mut Copies {
        match &mut self.link {
            Some(link) if link.device != device => &mut link.fabric_mut().devices[device].copies,
            _ => &mut self.copies,
        }
    }

    /// Where an operation of this device is.
    pub(super) fn origin(&self, agent: Agent, step: &Step) -> Origin {
        let device = self.link.as_ref().map_or(0, |link| link.device);
        Origin { agent, place: step.place, op: step.name.clone(), step: self.step.clone(), device }
    }

    /// The site of an origin; it names the device if there are several.
    pub(super) fn site_of(&self, origin: &Origin) -> Site {
        let site = origin.site();
        let device = site.device.filter(|_| self.link.as_ref().is_some_and(|link| link.devices > 1));
        Site { device, ..site }
    }

    /// The device that an operand names; it must exist.
    pub(crate) fn target_device(&mut self, step: &Step, operand: usize) -> Result<usize, Stop> {
        let named = self.integer(step, operand);
        let devices = self.link.as_ref().map_or(1, |link| link.devices);
        let exists = usize::try_from(named).ok().filter(|&device| device < devices);
        exists.ok_or_else(|| {
            let access = self.core_site(step);
            self.findings.add(Trouble::NoSuchDevice { device: named, devices, access });
            Stop::Halted
        })
    }

    /// Rejects operands that name a core other than the only one that a device has here.
    pub(crate) fn require_first_core(&self, step: &Step, operand: Option<usize>) -> Result<(), Stop> {
        match operand.map(|operand| self.integer(step, operand)) {
            None | Some(0) => Ok(()),
            Some(core) => {
                let message = format!("core {core} of a device is not supported: one core is simulated");
                Err(Stop::Fault(step.place, message))
            }
        }
    }

    /// Reports an access to a device that may not have entered the kernel.
    fn require_entered(&mut self, to: usize, step: &Step) {
        let Some(link) = &self.link else { return };
        let (own, other) = (&link.fabric().devices[link.device], &link.fabric().devices[to]);
        if self.options.races && link.device != to && !own.clock.knows(to, other.entered) {
            let access = self.core_site(step);
            self.findings.add(Trouble::MissingBarrier { device: to, access });
        }
    }

    /// Number on `to` of a buffer of this device, or its name if `to` has not entered its scope.
    fn counterpart(&self, to: usize, buffer: usize) -> Result<usize, String> {
        let Some(link) = self.link.as_ref().filter(|link| link.device != to) else { return Ok(buffer) };
        let other = &link.fabric().devices[to];
        if buffer < other.arguments && buffer < link.fabric().devices[link.device].arguments {
            return Ok(buffer);
        }
        let own = &self.buffers[buffer];
        let alike = |other: &Buffer| {
            other.name == own.name && other.shape == own.shape && other.element == own.element
        };
        let found = other.buffers.iter().enumerate().skip(other.arguments).rev().find(|(_, o)| alike(o));
        found.map(|(number, _)| number).ok_or_else(|| own.name.clone())
    }

    /// Signals a semaphore of device `to`.
    pub(crate) fn signal_device(
        &mut self,
        to: usize,
        (buffer, index): SemaphoreId,
        amount: i64,
        step: &Step,
    ) -> Result<(), Stop> {
        if self.buffers[buffer].name != BARRIER {
            self.require_entered(to, step);
        }
        let counterpart = self.counterpart(to, buffer);
        let site = self.site_of(&self.origin(Agent::Core, step));
        let at = self.clock.now();
        let Some(link) = &mut self.link else { return Ok(()) };
        let from = link.device;
        let clock = link.fabric_mut().devices[from].clock.release(from);
        let signal = Signal { amount, from, clock, at };
        let device = &mut link.fabric_mut().devices[to];
        let waiting = match counterpart {
            Ok(buffer) => {
                let signals = device.signals.entry((buffer, index)).or_default();
                signals.push(signal);
                let waiting = signals.len();
                self.copies_of_mut(to).signal((buffer, index), amount, site);
                waiting
            }
            Err(name) => {
                device.early.push(EarlySignal { name, index, signal, site });
                device.early.len()
            }
        };
        match waiting <= MAX_SIGNALS {
            true => Ok(()),
            false => {
                let message = format!("more than {MAX_SIGNALS} signals of one semaphore without a wait");
                Err(Stop::Fault(step.place, message))
            }
        }
    }

    /// Starts a DMA to device `to`.
    pub(crate) fn start_remote_copy(
        &mut self,
        to: usize,
        transfer: RemoteTransfer,
        step: &Step,
    ) -> Result<(), Stop> {
        let RemoteTransfer { source, mut target, send, receive } = transfer;
        self.inside(&source, |m| m.core_site(step))?;
        self.inside(&target, |m| m.core_site(step))?;
        // An empty DMA signals nothing: a wait must not take it for one that may still signal.
        if target.elements() == 0 {
            return Ok(());
        }
        self.require_entered(to, step);
        let agent = Agent::Copy(self.copies.take_number());
        let origin = self.origin(agent, step);
        let reads = self.buffers[source.buffer].region(&source);
        let writes = self.buffers[target.buffer].region(&target);
        let (buffer, early_target) = self.resolve(to, target.buffer);
        target.buffer = buffer;
        let (buffer, early_receive) = self.resolve(to, receive.0);
        let receive = (buffer, receive.1);
        let bytes = target.bytes();
        let ends = self.clock.copy(bytes as u64, step.line(), &self.buffers[source.buffer].name.clone());
        let site = self.site_of(&origin);
        self.copies.remember(send, site.clone());
        if early_receive.is_none() {
            self.copies_of_mut(to).remember(receive, site);
        }
        let Some(link) = &mut self.link else { return Ok(()) };
        let from = link.device;
        if link.fabric().remote.len() >= MAX_COPIES {
            let message = format!("more than {MAX_COPIES} DMAs between devices in flight without a wait");
            return Err(Stop::Fault(step.place, message));
        }
        let copy = RemoteCopy {
            from,
            to,
            source,
            target,
            reads: Some(reads),
            writes: early_target.is_none().then_some(writes),
            early_target,
            send,
            receive,
            early_receive,
            bytes: bytes as i64,
            origin,
            clock: VectorClock::default(),
            landed: false,
            sent: None,
            received: None,
            forgiven: false,
            ends,
        };
        if self.options.races {
            self.race_with_remote_copy(&copy);
        }
        let Some(link) = &mut self.link else { return Ok(()) };
        let fabric = link.fabric_mut();
        let clock = fabric.devices[from].clock.release(from);
        let number = fabric.started;
        fabric.started += 1;
        self.changes += 1;
        fabric.remote.insert(number, RemoteCopy { clock, ..copy });
        Ok(())
    }

    /// Number of a buffer on `to`; the name too if it is not in scope there yet.
    fn resolve(&self, to: usize, buffer: usize) -> (usize, Option<String>) {
        match self.counterpart(to, buffer) {
            Ok(number) => (number, None),
            Err(name) => (buffer, Some(name)),
        }
    }

    /// Delivers signals and DMAs that were sent before this device allocated the buffer.
    pub(crate) fn deliver_early(&mut self, view: &View) {
        let Some(link) = &mut self.link else { return };
        let (device, name) = (link.device, self.buffers[view.buffer].name.clone());
        let shape = self.buffers[view.buffer].shape.clone();
        let fabric = link.fabric_mut();
        for copy in fabric.remote.values_mut().filter(|copy| copy.to == device) {
            if copy.early_target.as_ref() == Some(&name) {
                copy.target.buffer = view.buffer;
                copy.writes = Some(copy.target.region(&shape, copy.target.unit()));
                copy.early_target = None;
            }
            if copy.early_receive.as_ref() == Some(&name) {
                copy.receive.0 = view.buffer;
                copy.early_receive = None;
            }
        }
        let own = &mut fabric.devices[device];
        let early = std::mem::take(&mut own.early).into_iter();
        let (now, later): (Vec<EarlySignal>, Vec<_>) = early.partition(|early| early.name == name);
        own.early = later;
        for EarlySignal { index, signal, site, .. } in now {
            self.copies.signal((view.buffer, index), signal.amount, site);
            own.signals.entry((view.buffer, index)).or_default().push(signal);
        }
    }

    /// The oldest DMA between devices that can still signal a semaphore of this device.
    pub(crate) fn due_remote_copy(&self, id: SemaphoreId) -> Option<usize> {
        let link = self.link.as_ref()?;
        let due = link.fabric().remote.iter().find(|(_, copy)| copy.is_due(link.device, id));
        due.map(|(&number, _)| number)
    }

    /// Moves the bytes of a DMA between devices and signals both semaphores, if it has not yet.
    pub(super) fn land_remote_copy(&mut self, number: usize) {
        let Some(link) = &mut self.link else { return };
        let Some(copy) = link.fabric_mut().remote.get_mut(&number) else { return };
        if copy.landed || copy.early_target.is_some() {
            return;
        }
        copy.landed = true;
        let (from, to, bytes) = (copy.from, copy.to, copy.bytes);
        let (source, target) = (copy.source.clone(), copy.target.clone());
        let (send, receive) = (copy.send, copy.early_receive.is_none().then_some(copy.receive));
        let mut moved = std::mem::take(&mut self.scratch);
        moved.clear();
        // The memory of a device that has failed is gone; so will be the result of the run.
        if let Some(buffer) = self.buffers_of(from).get(source.buffer) {
            buffer.gather(&source, &mut moved);
            let unwritten = buffer.unwritten_rows(&source);
            let spoiled = buffer.spoiled.clone().filter(|_| !unwritten.is_empty());
            if let Some(buffer) = self.buffers_of_mut(to).get_mut(target.buffer) {
                buffer.scatter(&target, &moved);
                unwritten.into_iter().for_each(|row| buffer.mark(&target.row(row), false));
            }
            spoiled.into_iter().for_each(|load| self.findings.add(*load));
        }
        self.scratch = moved;
        self.copies_of_mut(from).arrived(send, bytes);
        if let Some(receive) = receive {
            self.copies_of_mut(to).arrived(receive, bytes);
        }
    }

    /// Completes the DMAs between devices that access buffers of this device from number `first` on.
    pub(crate) fn release_remote(&mut self, first: usize) {
        let Some(link) = &self.link else { return };
        let device = link.device;
        let outgoing = |copy: &RemoteCopy| copy.from == device && copy.source.buffer >= first;
        let incoming = |copy: &RemoteCopy| {
            copy.to == device && copy.target.buffer >= first && copy.early_target.is_none()
        };
        let copies = link.fabric().remote.iter();
        let ends =
            |(&number, copy): (&usize, &RemoteCopy)| (outgoing(copy) || incoming(copy)).then_some(number);
        let numbers: Vec<usize> = copies.filter_map(ends).collect();
        for number in numbers {
            self.land_remote_copy(number);
            let Some(link) = &mut self.link else { return };
            let Some(copy) = link.fabric_mut().remote.get_mut(&number) else { continue };
            if outgoing(copy) {
                copy.reads = None;
            }
            if incoming(copy) {
                copy.writes = None;
            }
        }
        let Some(link) = &mut self.link else { return };
        let own = &mut link.fabric_mut().devices[device];
        own.history.release(first);
        own.signals.split_off(&(first, 0));
    }

    /// At the end of the kernel, after all devices have come to theirs: completes what is in flight.
    pub(crate) fn settle_remote(&mut self) {
        let Some(link) = &self.link else { return };
        let numbers: Vec<usize> = link.fabric().remote.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.land_remote_copy(number));
        let Some(link) = &mut self.link else { return };
        link.fabric_mut().remote.clear();
        let device = link.name();
        let number = link.device;
        let own = &mut link.fabric_mut().devices[number];
        for EarlySignal { name, signal, site, .. } in std::mem::take(&mut own.early) {
            let (count, signalled_by) = (signal.amount, vec![site]);
            self.findings.add(Trouble::SemaphoreLeftOver { semaphore: name, count, signalled_by, device });
        }
    }
}
