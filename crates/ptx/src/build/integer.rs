//! Integer arithmetic, comparisons, special registers, warp shuffles.

use super::{B32, B64, Pred, Ptx, Source, vector};
use crate::ir::Operand;

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident = $opcode:literal;)*) => {
        $($(#[$doc])*
        pub fn $name(&mut self, a: impl Into<Source>, b: impl Into<Source>) -> B32 {
            let out = self.b32();
            self.emit($opcode, [out.into(), a.into().into(), b.into().into()]);
            out
        })*
    };
}

macro_rules! compare {
    ($($(#[$doc:meta])* $name:ident = $opcode:literal;)*) => {
        $($(#[$doc])*
        pub fn $name(&mut self, a: impl Into<Source>, b: impl Into<Source>) -> Pred {
            let out = self.pred();
            self.emit($opcode, [out.into(), a.into().into(), b.into().into()]);
            out
        })*
    };
}

macro_rules! special {
    ($($(#[$doc:meta])* $name:ident = $register:literal;)*) => {
        $($(#[$doc])*
        pub fn $name(&mut self) -> B32 {
            let out = self.b32();
            self.emit("mov.u32", [out.into(), Operand::word($register)]);
            out
        })*
    };
}

impl Ptx {
    binary! {
        /// `a + b`
        add = "add.u32";
        /// `a - b`
        sub = "sub.u32";
        /// `a * b`, low half
        mul = "mul.lo.u32";
        /// `a / b`, unsigned
        div = "div.u32";
        /// `a % b`, unsigned
        rem = "rem.u32";
        /// `min(a, b)`, unsigned
        min = "min.u32";
        /// `a & b`
        and = "and.b32";
        /// `a | b`
        or = "or.b32";
        /// `a ^ b`
        xor = "xor.b32";
        /// `a << b`
        shl = "shl.b32";
        /// `a >> b`, logical
        shr = "shr.u32";
    }

    compare! {
        /// `a == b`
        eq = "setp.eq.u32";
        /// `a != b`
        ne = "setp.ne.u32";
        /// `a < b`, unsigned
        lt = "setp.lt.u32";
        /// `a >= b`, unsigned
        ge = "setp.ge.u32";
    }

    special! {
        /// Index of the thread in its CTA.
        thread = "%tid.x";
        /// Index of the CTA in the grid.
        block = "%ctaid.x";
        /// Second index of the CTA in the grid.
        block_y = "%ctaid.y";
        /// CTAs in the grid.
        blocks = "%nctaid.x";
        /// Index of the cluster in the grid.
        cluster = "%clusterid.x";
        /// Clusters in the grid.
        clusters = "%nclusterid.x";
        /// Rank of the CTA in its cluster.
        cluster_rank = "%cluster_ctarank";
    }

    /// `a * b + c`
    pub fn mad(&mut self, a: impl Into<Source>, b: impl Into<Source>, c: impl Into<Source>) -> B32 {
        let out = self.b32();
        self.emit("mad.lo.u32", [out.into(), a.into().into(), b.into().into(), c.into().into()]);
        out
    }

    /// `a * b + c` with a 64-bit `c`: the address of an element.
    pub fn mad_wide(&mut self, a: impl Into<Source>, b: impl Into<Source>, c: B64) -> B64 {
        let out = self.b64();
        self.emit("mad.wide.u32", [out.into(), a.into().into(), b.into().into(), c.into()]);
        out
    }

    /// A register that starts at `value` and can be assigned with [`Ptx::set`].
    pub fn variable(&mut self, value: impl Into<Source>) -> B32 {
        let out = self.b32();
        self.set(out, value);
        out
    }

    /// `variable = value`
    pub fn set(&mut self, variable: B32, value: impl Into<Source>) {
        self.emit("mov.b32", [variable.into(), value.into().into()]);
    }

    /// `variable += value`
    pub fn increase(&mut self, variable: B32, value: impl Into<Source>) {
        self.emit("add.u32", [variable.into(), variable.into(), value.into().into()]);
    }

    /// `variable ^= value`
    pub fn flip(&mut self, variable: B32, value: impl Into<Source>) {
        self.emit("xor.b32", [variable.into(), variable.into(), value.into().into()]);
    }

    /// `predicate ? yes : no`
    pub fn select(&mut self, yes: impl Into<Source>, no: impl Into<Source>, predicate: Pred) -> B32 {
        let out = self.b32();
        self.emit("selp.b32", [out.into(), yes.into().into(), no.into().into(), predicate.into()]);
        out
    }

    /// `a && b`
    pub fn both(&mut self, a: Pred, b: Pred) -> Pred {
        let out = self.pred();
        self.emit("and.pred", [out.into(), a.into(), b.into()]);
        out
    }

    /// A 64-bit register from two halves.
    pub fn join(&mut self, low: impl Into<Source>, high: impl Into<Source>) -> B64 {
        let out = self.b64();
        self.emit("mov.b64", [out.into(), vector(&[low.into(), high.into()])]);
        out
    }

    /// Exchanges a value with the lane whose index differs in `mask`.
    pub fn shuffle_xor(&mut self, value: B32, mask: u32) -> B32 {
        let out = self.b32();
        self.shuffle("shfl.sync.bfly.b32", out.into(), value.into(), mask);
        out
    }

    /// Broadcasts the value of lane 0, so that the assembler knows it is uniform in the warp.
    pub fn of_first_lane(&mut self, value: B32) -> B32 {
        let out = self.b32();
        self.shuffle("shfl.sync.idx.b32", out.into(), value.into(), 0);
        out
    }

    /// A shuffle among all 32 lanes.
    pub(super) fn shuffle(
        &mut self,
        opcode: &'static str,
        out: Operand<'static>,
        value: Operand<'static>,
        lane: u32,
    ) {
        self.emit(opcode, [out, value, lane.into(), 31.into(), Operand::word("-1")]);
    }
}
