//! Vector clocks over the devices of a run.

/// How far a device knows every device to have come.
///
/// A device's own entry is its epoch. It ends with every release: a signal, or the start of a DMA. Whoever
/// has received a release of epoch `e` knows everything that the device did up to the end of `e`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct VectorClock(Vec<u64>);

impl VectorClock {
    /// A clock that knows nothing of `devices` devices.
    pub(crate) fn new(devices: usize) -> Self {
        Self(vec![0; devices])
    }

    /// Latest known epoch of a device.
    pub(crate) fn of(&self, device: usize) -> u64 {
        self.0.get(device).copied().unwrap_or(0)
    }

    /// Returns whether everything up to the end of `epoch` of `device` is known.
    pub(crate) fn knows(&self, device: usize, epoch: u64) -> bool {
        self.of(device) >= epoch
    }

    /// Learns what `other` knows.
    pub(crate) fn join(&mut self, other: &Self) {
        for (own, &other) in self.0.iter_mut().zip(&other.0) {
            *own = (*own).max(other);
        }
    }

    /// Learns that a device has come to the end of `epoch`.
    pub(crate) fn learn(&mut self, device: usize, epoch: u64) {
        if let Some(known) = self.0.get_mut(device) {
            *known = (*known).max(epoch);
        }
    }

    /// Ends the epoch of `device`, whose clock this is, and returns the clock before.
    pub(crate) fn release(&mut self, device: usize) -> Self {
        let before = self.clone();
        if let Some(own) = self.0.get_mut(device) {
            *own += 1;
        }
        before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_carries_what_came_before_it_and_nothing_after() {
        let mut sender = VectorClock::new(2);
        sender.release(0);
        let epoch = sender.of(0);
        let sent = sender.release(0);
        let mut receiver = VectorClock::new(2);
        assert!(!receiver.knows(0, epoch));
        receiver.join(&sent);
        assert!(receiver.knows(0, epoch));
        assert!(!receiver.knows(0, sender.of(0)));
    }
}
