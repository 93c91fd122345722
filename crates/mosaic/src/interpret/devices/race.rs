//! Data races between devices.

use super::{Origin, clock::VectorClock, remote::RemoteCopy};
use crate::{
    interpret::{
        copies::{Copy, SemaphoreId},
        finding::{Agent, Area, Site, Trouble},
        machine::{COPIES_PER_OPERATION, Machine, Stop},
        program::Step,
        view::{Region, View},
    },
    ir::Place,
    limits::MAX_RECORDS,
};

/// An access to the memory of a device.
struct Access<'a> {
    device: usize,
    buffer: usize,
    regions: &'a [Region],
    writes: bool,
}

impl Access<'_> {
    fn meets(&self, region: Option<&Region>) -> bool {
        region.is_some_and(|region| self.regions.iter().any(|own| own.overlaps(region)))
    }
}

/// Something that an access is not ordered with.
struct Conflict {
    /// The DMA between devices, if it is one.
    remote: Option<usize>,
    site: Site,
    /// Whether it writes the memory of the access.
    writes: bool,
    semaphore: String,
}

impl Machine<'_> {
    /// DMAs between devices that are not ordered before an access.
    fn remote_conflicts(&self, access: &Access<'_>, clock: &VectorClock) -> Vec<Conflict> {
        let Some(link) = &self.link else { return Vec::new() };
        let mut conflicts = Vec::new();
        for (&number, copy) in link.fabric().remote.iter().filter(|(_, copy)| !copy.forgiven) {
            let written = copy.to == access.device
                && access.meets(copy.writes(access.buffer))
                && !copy.is_written(clock);
            let read = access.writes
                && copy.from == access.device
                && access.meets(copy.reads(access.buffer))
                && !copy.is_read(clock);
            if written || read {
                let semaphore = match written {
                    true => self.semaphore_of(copy.to, copy.receive),
                    false => self.semaphore_of(copy.from, copy.send),
                };
                let site = self.site_of(&copy.origin);
                conflicts.push(Conflict { remote: Some(number), site, writes: written, semaphore });
            }
        }
        conflicts
    }

    /// What a device does with its own memory that is not ordered before an access by another one.
    fn local_conflicts(&self, access: &Access<'_>, clock: &VectorClock) -> Vec<Conflict> {
        let Some(link) = &self.link else { return Vec::new() };
        let device = &link.fabric().devices[access.device];
        let copies = if access.device == link.device { &self.copies } else { &device.copies };
        let mut conflicts = Vec::new();
        let mut add = |site: Site, writes: bool| {
            let device = site.device.or(Some(access.device)).filter(|_| link.devices > 1);
            let site = Site { device, ..site };
            conflicts.push(Conflict { remote: None, site, writes, semaphore: String::new() });
        };
        for copy in copies.in_flight.values() {
            if copy.target.buffer == access.buffer && access.meets(Some(&copy.writes)) {
                add(copy.site(), true);
            } else if access.writes && copy.source.buffer == access.buffer && access.meets(Some(&copy.reads))
            {
                add(copy.site(), false);
            }
        }
        for record in device.history.of(access.buffer) {
            let conflicts = (access.writes || record.writes) && access.meets(Some(&record.region));
            if conflicts && !record.is_known(access.device, clock) {
                add(record.origin.site(), record.writes);
            }
        }
        conflicts
    }

    fn own_clock(&self) -> VectorClock {
        self.link.as_ref().map(|link| link.fabric().devices[link.device].clock.clone()).unwrap_or_default()
    }

    /// Formats a semaphore of a device.
    fn semaphore_of(&self, device: usize, (buffer, index): SemaphoreId) -> String {
        self.buffers_of(device).get(buffer).map_or_else(String::new, |buffer| buffer.semaphore_name(index))
    }

    fn area_of(&self, device: usize, buffer: usize, view: &View) -> Area {
        let area = self.buffers_of(device).get(buffer).map(|buffer| buffer.area(view));
        let area = area.unwrap_or(Area { buffer: String::new(), ranges: None, device: None });
        let several = self.link.as_ref().is_some_and(|link| link.devices > 1);
        Area { device: several.then_some(device), ..area }
    }

    /// Checks an access by this device's core, or by a DMA that it starts, against DMAs between devices.
    pub(crate) fn race_with_remote(&mut self, view: &View, writes: bool, site: impl Fn(&Self) -> Site) {
        if self.link.as_ref().is_none_or(|link| link.fabric().remote.is_empty()) || !self.options.races {
            return;
        }
        let Some(link) = &self.link else { return };
        let (device, waiting) = (link.device, link.fabric().remote.len());
        let regions = self.buffers[view.buffer].regions(view);
        self.count_operations((regions.len() * waiting / COPIES_PER_OPERATION) as u64);
        let access = Access { device, buffer: view.buffer, regions: &regions, writes };
        let conflicts = self.remote_conflicts(&access, &self.own_clock());
        for conflict in conflicts {
            let area = self.area_of(device, view.buffer, view);
            let (copy, semaphore) = (conflict.site, conflict.semaphore);
            let access = site(self);
            self.findings.add(match conflict.writes {
                true => Trouble::DeviceRace { area, copy, access, writes, semaphore },
                false => Trouble::OverwrittenDuringCopyOut { area, copy, write: access, semaphore },
            });
            self.forgive_remote(conflict.remote);
        }
    }

    fn forgive_remote(&mut self, number: Option<usize>) {
        let Some(number) = number else { return };
        self.land_remote_copy(number);
        if let Some(copy) = self.link.as_mut().and_then(|link| link.fabric_mut().remote.get_mut(&number)) {
            copy.forgiven = true;
        }
    }

    /// Checks the start of a DMA to another device on both sides.
    pub(super) fn race_with_remote_copy(&mut self, copy: &RemoteCopy) {
        let clock = self.own_clock();
        let scanned = self
            .link
            .as_ref()
            .map_or(0, |link| link.fabric().remote.len() + link.fabric().devices[copy.to].history.len());
        self.count_operations((scanned / COPIES_PER_OPERATION) as u64);
        if let Some(region) = &copy.reads {
            let regions = std::slice::from_ref(region);
            let access = Access { device: copy.from, buffer: copy.source().buffer, regions, writes: false };
            let mut conflicts = self.remote_conflicts(&access, &clock);
            conflicts.extend(self.local_conflicts(&access, &clock));
            self.report_reads(copy, conflicts);
        }
        let Some(region) = &copy.writes else { return };
        let regions = std::slice::from_ref(region);
        let access = Access { device: copy.to, buffer: copy.target().buffer, regions, writes: true };
        let mut conflicts = self.remote_conflicts(&access, &clock);
        conflicts.extend(self.local_conflicts(&access, &clock));
        for conflict in conflicts {
            let area = self.area_of(copy.to, copy.target().buffer, copy.target());
            let semaphore = self.semaphore_of(copy.to, copy.receive);
            let (started, access, writes) = (self.site_of(&copy.origin), conflict.site, conflict.writes);
            self.findings.add(Trouble::DeviceRace { area, copy: started, access, writes, semaphore });
            self.forgive_remote(conflict.remote);
        }
    }

    /// Reports what may still write the source of a new DMA.
    fn report_reads(&mut self, copy: &RemoteCopy, conflicts: Vec<Conflict>) {
        for conflict in conflicts.into_iter().filter(|conflict| conflict.writes) {
            let area = self.area_of(copy.from, copy.source().buffer, copy.source());
            let (semaphore, read) = (conflict.semaphore, self.site_of(&copy.origin));
            self.findings.add(match conflict.remote {
                Some(_) => {
                    Trouble::DeviceRace { area, copy: conflict.site, access: read, writes: false, semaphore }
                }
                None => Trouble::ReadDuringCopyIn { area, copy: conflict.site, read, semaphore },
            });
            self.forgive_remote(conflict.remote);
        }
    }

    /// Remembers an access of the core for DMAs of other devices that start later.
    pub(crate) fn remember_access(&mut self, step: &Step, view: &View, writes: bool) -> Result<(), Stop> {
        if !self.options.races || self.link.as_ref().is_none_or(|link| link.devices == 1) {
            return Ok(());
        }
        let origin = self.origin(Agent::Core, step);
        let regions = self.buffers[view.buffer].regions(view);
        self.record(view.buffer, regions, writes, origin, step.place)
    }

    /// Remembers DMAs of this device that it has just observed to be complete.
    pub(crate) fn remember_copies(&mut self, copies: Vec<Copy>) -> Result<(), Stop> {
        if !self.options.races || self.link.as_ref().is_none_or(|link| link.devices == 1) {
            return Ok(());
        }
        let device = self.link.as_ref().map_or(0, |link| link.device);
        for copy in copies {
            let site = copy.site();
            let Copy { agent, source, target, reads, writes, place, step, .. } = copy;
            let origin = Origin { agent, place, op: site.op.into(), step, device };
            self.record(source.buffer, vec![reads], false, origin.clone(), place)?;
            self.record(target.buffer, vec![writes], true, origin, place)?;
        }
        Ok(())
    }

    fn record(
        &mut self,
        buffer: usize,
        regions: Vec<Region>,
        writes: bool,
        origin: Origin,
        place: Option<Place>,
    ) -> Result<(), Stop> {
        let Some(link) = &mut self.link else { return Ok(()) };
        let device = link.device;
        let fabric = link.fabric_mut();
        let own = &mut fabric.devices[device];
        let epoch = own.clock.of(device);
        for region in regions {
            own.history.add(buffer, region, writes, epoch, None, origin.clone());
        }
        let records = own.history.len();
        if records > MAX_RECORDS {
            let others = fabric.devices.iter().enumerate().filter(|(other, _)| *other != device);
            let known = others.map(|(_, other)| other.clock.of(device)).min().unwrap_or(0);
            fabric.devices[device].history.forget_until(known);
            if fabric.devices[device].history.len() > MAX_RECORDS {
                let message = format!(
                    "more than {MAX_RECORDS} separate regions are accessed without synchronization between \
                     the devices: run with --no-races"
                );
                return Err(Stop::Fault(place, message));
            }
        }
        self.count_operations((records / COPIES_PER_OPERATION) as u64);
        Ok(())
    }
}
