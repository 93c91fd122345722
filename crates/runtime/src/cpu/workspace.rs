//! Scratch memory reused between calls.

use octile_core::plan::{BufferId, MemoryMap, MemorySpace, cpu::CpuPlan};

use super::claims::Claims;
use super::memory::{Line, Memory, bytes_mut, floats_mut};

/// Scratch memory, and the plan of the last call. A call with the same plan does not allocate.
///
/// ```
/// use octile_runtime::cpu::Workspace;
///
/// let workspace = Workspace::new();
/// assert_eq!(workspace.bytes(), 0);
/// ```
#[derive(Debug, Default)]
pub struct Workspace {
    memory: Memory,
    claims: Vec<Claims>,
    plan: Option<CpuPlan>,
}

/// The memory of one call.
pub(super) struct Scratch<'a> {
    /// Of each thread.
    pub memory: &'a mut [Line],
    /// Of all threads.
    pub shared: &'a mut [Line],
    /// Of each lane.
    pub claims: &'a [Claims],
}

impl Workspace {
    /// Returns an empty workspace, which grows in the first call.
    pub fn new() -> Self {
        Self::default()
    }

    /// Allocates a workspace for a plan.
    pub(super) fn for_plan(plan: CpuPlan) -> Self {
        let mut workspace = Self::new();
        workspace.grow(&plan);
        workspace.plan = Some(plan);
        workspace
    }

    /// The plan of the last call.
    pub fn plan(&self) -> Option<&CpuPlan> {
        self.plan.as_ref()
    }

    /// Size in bytes, for all threads.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.memory)
    }

    /// Returns the cached plan if `fits`, otherwise a new one, with its memory.
    pub(super) fn prepare(
        &mut self,
        fits: impl FnOnce(&CpuPlan) -> bool,
        make: impl FnOnce() -> CpuPlan,
    ) -> (&CpuPlan, Scratch<'_>) {
        if !self.plan.as_ref().is_some_and(fits) {
            let plan = make();
            self.grow(&plan);
            self.plan = Some(plan);
        }
        let plan = self.plan.as_ref().expect("set above");
        let lines = &mut self.memory[..total_lines(plan)];
        let (memory, shared) = lines.split_at_mut(plan.workers() * thread_lines(plan));
        (plan, Scratch { memory, shared, claims: &self.claims[..plan.lanes()] })
    }

    fn grow(&mut self, plan: &CpuPlan) {
        let needed = total_lines(plan);
        if self.memory.len() < needed {
            self.memory = Memory::zeroed(needed);
        }
        if self.claims.len() < plan.lanes() {
            self.claims.resize_with(plan.lanes(), Claims::default);
        }
    }
}

/// Lines of one thread's memory.
pub(super) fn thread_lines(plan: &CpuPlan) -> usize {
    plan.thread_bytes() / size_of::<Line>()
}

fn total_lines(plan: &CpuPlan) -> usize {
    plan.workers() * thread_lines(plan) + plan.shared.total(MemorySpace::Cache) / size_of::<Line>()
}

/// Splits memory into the buffers of a map, in order.
pub(super) struct Carver<'a> {
    map: &'a MemoryMap,
    rest: &'a mut [Line],
    next: usize,
}

impl<'a> Carver<'a> {
    pub(super) fn new(map: &'a MemoryMap, memory: &'a mut [Line]) -> Self {
        Self { map, rest: memory, next: 0 }
    }

    /// Returns all copies of the next buffer if it has this id; otherwise the map has no such buffer, and the
    /// slice is empty.
    pub(super) fn bytes(&mut self, id: BufferId) -> &'a mut [u8] {
        bytes_mut(self.lines(id))
    }

    /// The same as floats.
    pub(super) fn floats(&mut self, id: BufferId) -> &'a mut [f32] {
        floats_mut(self.lines(id))
    }

    fn lines(&mut self, id: BufferId) -> &'a mut [Line] {
        let Some(buffer) = self.map.buffers().get(self.next).filter(|b| b.id == id) else {
            return &mut [];
        };
        self.next += 1;
        let (lines, rest) = std::mem::take(&mut self.rest).split_at_mut(buffer.total() / size_of::<Line>());
        self.rest = rest;
        lines
    }
}
