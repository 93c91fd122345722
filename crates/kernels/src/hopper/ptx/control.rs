//! Labels, branches and barriers of a block or cluster.

use std::fmt::{self, Display, Write};

use super::{B32, Pred, Ptx};

/// A place to jump to.
#[derive(Clone, Copy, Debug)]
pub struct Label(u32);

impl Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "L{}", self.0)
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
        writeln!(self.body, "{label}:").expect("strings take all text");
    }

    /// Jumps.
    pub fn jump(&mut self, label: Label) {
        self.line(format_args!("bra {label}"));
    }

    /// Jumps where the predicate holds.
    pub fn jump_if(&mut self, predicate: Pred, label: Label) {
        self.line(format_args!("@{predicate} bra {label}"));
    }

    /// Jumps where the predicate does not hold.
    pub fn jump_unless(&mut self, predicate: Pred, label: Label) {
        self.line(format_args!("@!{predicate} bra {label}"));
    }

    /// Runs `then` in one lane of the warp, always the same, once all are here. The assembler knows that it is one, and needs no loop over
    /// lanes around what only one can do.
    pub fn in_one_lane(&mut self, then: impl FnOnce(&mut Self)) {
        let one = self.pred();
        self.line(format_args!("elect.sync _|{one}, -1"));
        self.when(one, then);
    }

    /// Runs `then` where the predicate holds.
    pub fn when(&mut self, predicate: Pred, then: impl FnOnce(&mut Self)) {
        let end = self.label();
        self.jump_unless(predicate, end);
        then(self);
        self.place(end);
    }

    /// Repeats `body` as long as `condition` holds before it.
    pub fn while_(&mut self, condition: impl FnOnce(&mut Self) -> Pred, body: impl FnOnce(&mut Self)) {
        let (start, end) = (self.label(), self.label());
        self.place(start);
        let predicate = condition(self);
        self.jump_unless(predicate, end);
        body(self);
        self.jump(start);
        self.place(end);
    }

    /// Waits for every thread of the block.
    pub fn block_barrier(&mut self) {
        self.line("bar.sync 0");
    }

    /// Waits for `threads` threads at one of the block's further barriers, 1 to 15.
    pub fn barrier_of(&mut self, barrier: B32, threads: u32) {
        self.line(format_args!("barrier.cta.sync.aligned {barrier}, {threads}"));
    }

    /// Brings the lanes of a warp together.
    pub fn warp_barrier(&mut self) {
        self.line("bar.warp.sync -1");
    }

    /// Waits for every thread of the cluster; what they wrote before is seen after.
    pub fn cluster_barrier(&mut self) {
        self.cluster_arrive();
        self.cluster_wait();
    }

    /// The first half of [`Ptx::cluster_barrier`]: says that this thread is there.
    pub fn cluster_arrive(&mut self) {
        self.line("barrier.cluster.arrive.release");
    }

    /// The second half of [`Ptx::cluster_barrier`]: waits for the others.
    pub fn cluster_wait(&mut self) {
        self.line("barrier.cluster.wait.acquire");
    }

    /// Gives registers back, down to `registers` per thread.
    pub fn release_registers(&mut self, registers: u32) {
        self.line(format_args!("setmaxnreg.dec.sync.aligned.u32 {registers}"));
    }

    /// Takes registers that others gave back, up to `registers` per thread.
    pub fn claim_registers(&mut self, registers: u32) {
        self.line(format_args!("setmaxnreg.inc.sync.aligned.u32 {registers}"));
    }

    /// Waits until the kernel before this one in the stream has finished.
    pub fn wait_for_previous_kernel(&mut self) {
        self.line("griddepcontrol.wait");
    }

    /// Lets the next kernel of the stream start its preparations.
    pub fn let_next_kernel_start(&mut self) {
        self.line("griddepcontrol.launch_dependents");
    }
}
