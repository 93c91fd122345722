//! Waits that another device may have to end.

use super::{Signal, State, remote::RemoteCopy};
use crate::interpret::{
    copies::SemaphoreId,
    finding::{Note, Site, Waiter},
    machine::{Machine, Stop},
};

impl Machine<'_> {
    /// Waits for other devices to add to a semaphore that holds less than `amount`; false if none can.
    pub(crate) fn wait_for_devices(
        &mut self,
        id: SemaphoreId,
        amount: i64,
        site: &Site,
    ) -> Result<bool, Stop> {
        if let Some(number) = self.due_remote_copy(id) {
            self.land_remote_copy(number);
            return Ok(true);
        }
        let Some(link) = self.link.as_ref().filter(|link| link.devices > 1) else { return Ok(false) };
        let waiter = Waiter {
            semaphore: self.semaphore_name(id),
            wait: Site { device: link.name(), ..site.clone() },
            needed: amount,
            available: 0,
            signalled_by: Vec::new(),
        };
        self.switch(State::Waiting(id, waiter))?;
        Ok(true)
    }

    /// Learns what a wait has made known, and stalls until it happened.
    pub(crate) fn learn(&mut self, id: SemaphoreId, held: i64, amount: i64, site: &Site) {
        if self.link.is_some() {
            let latest = self.observe(id, held, amount, site);
            self.clock.wait_until(latest, site.line, &site.op);
        }
    }

    /// Learns the signals and DMAs that a wait of `amount` cannot have returned without, on a semaphore that
    /// held `held`. Returns the latest time of any of them.
    fn observe(&mut self, id: SemaphoreId, held: i64, amount: i64, site: &Site) -> f64 {
        let complete = self.complete_copies(id, held, amount, site);
        complete.iter().for_each(|&number| self.land_remote_copy(number));
        let Some(link) = &mut self.link else { return 0.0 };
        let device = link.device;
        let fabric = link.fabric_mut();
        let own = &mut fabric.devices[device];
        let mut latest: f64 = 0.0;
        if let Some(signals) = own.signals.get_mut(&id) {
            let without = |signal: &Signal| {
                let later = signals.iter().filter(|other| other.follows(signal));
                held.saturating_sub(later.fold(0, |all: i64, other| all.saturating_add(other.amount)))
            };
            let needed: Vec<bool> = signals.iter().map(|signal| without(signal) < amount).collect();
            let mut needed = needed.into_iter();
            signals.retain(|signal| {
                let is_needed = needed.next().unwrap_or(false);
                if is_needed {
                    own.clock.join(&signal.clock);
                    latest = latest.max(signal.at);
                }
                !is_needed
            });
        }
        for number in complete {
            let Some(copy) = fabric.remote.get_mut(&number) else { continue };
            let epoch = own.clock.of(device);
            latest = latest.max(copy.ends);
            if copy.signals_sender(device, id) {
                copy.sent.get_or_insert(epoch);
            }
            if copy.signals_receiver(device, id) {
                own.clock.join(&copy.clock);
                copy.received.get_or_insert(epoch);
            }
        }
        self.retire();
        latest
    }

    /// DMAs between devices without whose last byte a wait cannot have returned. Those from one device to
    /// another arrive in the order in which they were started; a kernel that relies on it gets a note.
    fn complete_copies(&mut self, id: SemaphoreId, held: i64, amount: i64, site: &Site) -> Vec<usize> {
        let Some(link) = &self.link else { return Vec::new() };
        let device = link.device;
        let open = |copy: &RemoteCopy| {
            copy.signals_receiver(device, id) && copy.received.is_none()
                || copy.signals_sender(device, id) && copy.sent.is_none()
        };
        let copies: Vec<(usize, &RemoteCopy)> = link
            .fabric()
            .remote
            .iter()
            .map(|(&number, copy)| (number, copy))
            .filter(|(_, c)| open(c))
            .collect();
        let due = copies.iter().filter(|(_, copy)| copy.is_due(device, id)).map(|(_, copy)| copy.bytes);
        let total = due.fold(held.saturating_add(self.copies.pending_bytes(id)), i64::saturating_add);
        let later = |position: usize| {
            let (_, first) = copies[position];
            let same = |(_, copy): &&(usize, &RemoteCopy)| (copy.from, copy.to) == (first.from, first.to);
            let bytes = copies[position + 1..].iter().filter(same).map(|(_, copy)| copy.bytes);
            bytes.fold(0, i64::saturating_add)
        };
        let is_complete = |position: &usize| total.saturating_sub(later(*position)) <= amount;
        let complete: Vec<usize> = (0..copies.len()).filter(is_complete).collect();
        let in_order =
            complete.iter().find(|&&position| later(position) > 0).map(|&position| copies[position].1.from);
        let numbers = complete.iter().map(|&position| copies[position].0).collect();
        if let Some(from) = in_order {
            let message = format!(
                "several DMAs of device {from} may be in flight on {} at once, and the wait relies on their \
                 arriving in order; use one semaphore for each",
                self.semaphore_name(id)
            );
            let note = Note { line: site.line, op: site.op.clone(), message };
            if self.notes.iter().all(|known| known.line != note.line) {
                self.notes.push(note);
            }
        }
        numbers
    }

    /// Moves DMAs that both sides have observed to the histories of the memory they accessed.
    fn retire(&mut self) {
        let Some(link) = &mut self.link else { return };
        let fabric = link.fabric_mut();
        let over = |(&number, copy): (&usize, &RemoteCopy)| {
            (copy.sent.is_some() && copy.received.is_some()).then_some(number)
        };
        let numbers: Vec<usize> = fabric.remote.iter().filter_map(over).collect();
        for number in numbers {
            let Some(copy) = fabric.remote.remove(&number) else { continue };
            let (Some(sent), Some(received)) = (copy.sent, copy.received) else { continue };
            let (source, target) = (copy.source().buffer, copy.target().buffer);
            if let Some(reads) = copy.reads {
                let also = Some((copy.to, received));
                let history = &mut fabric.devices[copy.from].history;
                history.add(source, reads, false, sent, also, copy.origin.clone());
            }
            if let Some(writes) = copy.writes {
                let history = &mut fabric.devices[copy.to].history;
                history.add(target, writes, true, received, None, copy.origin);
            }
        }
    }
}
