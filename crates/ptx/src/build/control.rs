//! Labels, branches, barriers of a CTA or cluster, register reallocation, PDL.

use super::{B32, Pred, Ptx};
use crate::ir::{self, Guard, Name, Operand, Position};

/// A branch target.
#[derive(Clone, Copy, Debug)]
pub struct Label(u32);

impl Label {
    fn name(self) -> Name<'static> {
        format!("L{}", self.0).into()
    }
}

impl Ptx {
    /// A label that is placed later.
    pub fn label(&mut self) -> Label {
        self.labels += 1;
        Label(self.labels)
    }

    /// Places a label here.
    pub fn place(&mut self, label: Label) {
        let (target, position) = (self.body.instructions.len(), Position::default());
        self.body.labels.push(ir::Label { name: label.name(), target, position });
    }

    /// Branches.
    pub fn jump(&mut self, label: Label) {
        self.emit("bra", [Operand::Word(label.name())]);
    }

    /// Branches where the predicate holds.
    pub fn jump_if(&mut self, predicate: Pred, label: Label) {
        self.emit_if(predicate, "bra", [Operand::Word(label.name())]);
    }

    /// Branches where the predicate does not hold.
    pub fn jump_unless(&mut self, predicate: Pred, label: Label) {
        let guard = Guard { predicate: predicate.name(), negated: true };
        self.push(Some(guard), "bra", [Operand::Word(label.name())]);
    }

    /// Runs `then` in one elected lane, once the whole warp is here. With `elect.sync` the assembler knows
    /// that it is one lane, and needs no loop over lanes around instructions that only one may execute.
    pub fn in_one_lane(&mut self, then: impl FnOnce(&mut Self)) {
        let one = self.pred();
        self.emit("elect.sync", [Operand::Pair("_".into(), one.name()), Operand::word("-1")]);
        self.when(one, then);
    }

    /// Runs `then` where the predicate holds.
    pub fn when(&mut self, predicate: Pred, then: impl FnOnce(&mut Self)) {
        let end = self.label();
        self.jump_unless(predicate, end);
        then(self);
        self.place(end);
    }

    /// Repeats `body` while `condition` holds.
    pub fn while_(&mut self, condition: impl FnOnce(&mut Self) -> Pred, body: impl FnOnce(&mut Self)) {
        let (start, end) = (self.label(), self.label());
        self.place(start);
        let predicate = condition(self);
        self.jump_unless(predicate, end);
        body(self);
        self.jump(start);
        self.place(end);
    }

    /// Waits for every thread of the CTA.
    pub fn block_barrier(&mut self) {
        self.emit("bar.sync", [0.into()]);
    }

    /// Waits for `threads` threads at one of the CTA's named barriers, 1 to 15.
    pub fn barrier_of(&mut self, barrier: B32, threads: u32) {
        self.emit("barrier.cta.sync.aligned", [barrier.into(), threads.into()]);
    }

    /// Waits for every lane of the warp.
    pub fn warp_barrier(&mut self) {
        self.emit("bar.warp.sync", [Operand::word("-1")]);
    }

    /// Waits for every thread of the cluster, with acquire-release ordering.
    pub fn cluster_barrier(&mut self) {
        self.cluster_arrive();
        self.cluster_wait();
    }

    /// The first half of [`Ptx::cluster_barrier`]: arrives.
    pub fn cluster_arrive(&mut self) {
        self.emit("barrier.cluster.arrive.release", []);
    }

    /// The second half of [`Ptx::cluster_barrier`]: waits for the others.
    pub fn cluster_wait(&mut self) {
        self.emit("barrier.cluster.wait.acquire", []);
    }

    /// Releases registers, down to `registers` per thread.
    pub fn release_registers(&mut self, registers: u32) {
        self.emit("setmaxnreg.dec.sync.aligned.u32", [registers.into()]);
    }

    /// Claims registers that other warpgroups released, up to `registers` per thread.
    pub fn claim_registers(&mut self, registers: u32) {
        self.emit("setmaxnreg.inc.sync.aligned.u32", [registers.into()]);
    }

    /// Waits until the preceding kernel of the stream has finished (PDL).
    pub fn wait_for_previous_kernel(&mut self) {
        self.emit("griddepcontrol.wait", []);
    }

    /// Lets the next kernel of the stream start its prologue (PDL).
    pub fn let_next_kernel_start(&mut self) {
        self.emit("griddepcontrol.launch_dependents", []);
    }
}
