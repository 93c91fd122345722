//! Waits that another device may have to end.

use super::State;
use crate::interpret::{
    copies::SemaphoreId,
    finding::{Site, Waiter},
    machine::{Machine, Stop},
};

impl Machine<'_> {
    /// Waits for other devices to add to a semaphore that holds less than `amount`. Returns false if none can.
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
}
