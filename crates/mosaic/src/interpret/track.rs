//! Defects between grid steps: results whose blocks are visited again, use of what a step with another
//! parallel index wrote, and memories that the kernel's buffers exceed.

use octile_core::device::tpu::{smem_bytes, vmem_bytes};

use super::{
    finding::{Agent, Site, Trouble},
    machine::{Machine, Stop},
    program::Step,
    view::View,
    writers::Write,
};
use crate::{
    ir::Place,
    types::{DYNAMIC, MemorySpace, Type},
};

/// An earlier visit of a result's block.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Visit {
    pub(crate) block: Vec<i64>,
    /// The last step of the visit.
    pub(crate) left: Vec<i64>,
}

impl Machine<'_> {
    /// Before a step: which group of parallel steps it belongs to.
    pub(crate) fn begin_step(&mut self, step: &[i64]) {
        self.step = step.to_vec();
        self.undefined.clear();
        self.group = self.parallel.group(step);
    }

    /// Tracks the writers of a buffer that outlives a step, if the grid has parallel dimensions.
    pub(crate) fn track(&mut self, view: &View) {
        let buffer = &mut self.buffers[view.buffer];
        // The records of larger buffers would take more memory than the buffers.
        let fits = view.elements() <= crate::limits::MAX_VECTOR_ELEMENTS && buffer.element.is_some();
        if fits && self.parallel.group(&[]) != 0 {
            buffer.tracked = Some(Box::default());
        }
    }

    /// Checks a read by the core for what other parallel steps wrote.
    pub(crate) fn check_read(&mut self, step: &Step, view: &View) {
        let buffer = &self.buffers[view.buffer];
        let Some(tracked) = &buffer.tracked else { return };
        let Some(write) = tracked.writers.by_another(view, buffer.unit(), self.group) else { return };
        let write = write.clone();
        self.report_dependence(view, write, self.core_site(step), true);
    }

    /// Records a write by the core.
    pub(crate) fn record_write(&mut self, step: &Step, view: &View) {
        let (group, buffer) = (self.group, &mut self.buffers[view.buffer]);
        let (unit, elements) = (buffer.unit(), buffer.shape.iter().product());
        if let Some(tracked) = &mut buffer.tracked {
            let write = Write { place: step.place, op: step.name.clone(), step: self.step.clone() };
            tracked.writers.write(view, unit, elements, group, write);
        }
    }

    /// Checks a block of a result before it is copied out: on two cores each would copy a part of it only.
    pub(crate) fn check_block(&mut self, view: &View, access: Site) {
        let buffer = &self.buffers[view.buffer];
        let Some(tracked) = &buffer.tracked else { return };
        let write = tracked.writers.by_another(view, buffer.unit(), self.group).cloned();
        if let Some(write) = write {
            self.report_dependence(view, write, access, false);
        }
    }

    /// Records what a DMA wrote, in the step that started it.
    pub(crate) fn record_copy(&mut self, number: usize) {
        let Some(copy) = self.copies.in_flight.get(&number) else { return };
        let buffer = &mut self.buffers[copy.target.buffer];
        let (unit, elements) = (buffer.unit(), buffer.shape.iter().product());
        if let Some(tracked) = &mut buffer.tracked {
            let site = copy.site();
            let write = Write { place: copy.place, op: site.op.into(), step: site.step };
            tracked.writers.write(&copy.target, unit, elements, self.parallel.group(&copy.step), write);
        }
    }

    /// Reports the first dependence of a buffer; the others have the same cause.
    fn report_dependence(&mut self, view: &View, write: Write, access: Site, reads: bool) {
        let Some(dimension) = self.parallel.difference(&write.step, &self.step) else { return };
        let (area, write) = (self.buffers[view.buffer].area(view), write.site());
        self.findings.add(Trouble::ParallelDependence { area, dimension, write, access, reads });
        self.buffers[view.buffer].tracked = None;
    }

    /// The defect of using memory that was never written: of a block's second visit, or of any buffer.
    pub(crate) fn unwritten_trouble(&self, view: &View, read: Site) -> Trouble {
        let buffer = &self.buffers[view.buffer];
        let area = buffer.area(view);
        match &buffer.revisited {
            Some(visit) => {
                let Visit { block, left } = (**visit).clone();
                Trouble::OutputRevisited { area, block, left, access: read }
            }
            None => match &buffer.spoiled {
                Some(load) => (**load).clone(),
                None => Trouble::ReadOfUnwritten { area, read },
            },
        }
    }

    /// Checks a buffer that the kernel allocates while it runs.
    pub(crate) fn check_room(
        &mut self,
        name: &str,
        space: MemorySpace,
        bytes: usize,
        place: Option<Place>,
    ) -> Result<(), Stop> {
        let live = self.buffers.iter().filter(|buffer| buffer.space == space && !buffer.is_far);
        let mut buffers: Vec<(String, usize)> = live
            .map(|buffer| {
                let bits = buffer.element.map_or(0, |element| 8 * element.bytes());
                (buffer.name.clone(), padded(space, &buffer.shape, bits))
            })
            .collect();
        buffers.push((name.to_owned(), bytes));
        let site = Some(Site::new(Agent::Core, place, "memref.alloca", &self.step));
        self.check_memory(space, buffers, site)
    }

    /// Compares the blocks of operands and results, each with its bytes and those of the whole array, with
    /// the limit that the compiler sets them.
    pub(crate) fn check_blocks(&mut self, mut blocks: Vec<(String, usize, usize)>) -> Result<(), Stop> {
        let options = self.options;
        let (Some(limit), Some(physical)) = (options.vmem_blocks, options.vmem_limit) else { return Ok(()) };
        // Whole arrays may be kept in the VMEM beyond the limit; no blocks of them are fetched then.
        let mut room = physical.saturating_sub(limit);
        blocks.sort_by_key(|(_, bytes, _)| std::cmp::Reverse(*bytes));
        blocks.retain(|(_, _, whole)| match room.checked_sub(*whole) {
            Some(rest) => {
                room = rest;
                false
            }
            None => true,
        });
        let buffers = blocks.into_iter().map(|(name, bytes, _)| (name, bytes)).collect();
        self.exceeds("VMEM", Some(limit), buffers, None)
    }

    /// Compares the sizes of buffers with the limit of their memory.
    pub(crate) fn check_memory(
        &mut self,
        space: MemorySpace,
        buffers: Vec<(String, usize)>,
        site: Option<Site>,
    ) -> Result<(), Stop> {
        let (memory, limit) = match space {
            MemorySpace::Vmem => ("VMEM", self.options.vmem_limit),
            MemorySpace::Smem => ("SMEM", self.options.smem_limit),
            _ => return Ok(()),
        };
        self.exceeds(memory, limit, buffers, site)
    }

    /// Reports buffers that exceed a limit together.
    fn exceeds(
        &mut self,
        memory: &'static str,
        limit: Option<usize>,
        mut buffers: Vec<(String, usize)>,
        site: Option<Site>,
    ) -> Result<(), Stop> {
        let bytes = buffers.iter().fold(0usize, |all, (_, bytes)| all.saturating_add(*bytes));
        let Some(limit) = limit.filter(|&limit| bytes > limit) else { return Ok(()) };
        buffers.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        self.findings.add(Trouble::MemoryExceeded { memory, bytes, limit, buffers, site });
        Err(Stop::Halted)
    }
}

/// Bytes of an array as the compiler lays it out.
pub(crate) fn padded(space: MemorySpace, shape: &[usize], element_bits: usize) -> usize {
    match space {
        _ if shape.contains(&DYNAMIC) || element_bits == 0 => 0,
        MemorySpace::Smem => smem_bytes(shape),
        _ => vmem_bytes(shape, element_bits),
    }
}

/// Bits of an element in memory; 0 for semaphores.
pub(crate) fn element_bits(ty: &Type) -> usize {
    match ty.element() {
        Type::Float(float) => float.bits(),
        Type::Integer(1) => 8,
        Type::Integer(bits) => *bits as usize,
        Type::Index => 32,
        _ => 0,
    }
}
