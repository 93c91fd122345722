//! Integer arithmetic, comparisons and what a thread knows of itself.

use super::{B32, B64, Pred, Ptx, Source};

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident = $mnemonic:literal;)*) => {
        $($(#[$doc])*
        pub fn $name(&mut self, a: impl Into<Source>, b: impl Into<Source>) -> B32 {
            let out = self.b32();
            self.line(format_args!(concat!($mnemonic, " {}, {}, {}"), out, a.into(), b.into()));
            out
        })*
    };
}

macro_rules! compare {
    ($($(#[$doc:meta])* $name:ident = $mnemonic:literal;)*) => {
        $($(#[$doc])*
        pub fn $name(&mut self, a: impl Into<Source>, b: impl Into<Source>) -> Pred {
            let out = self.pred();
            self.line(format_args!(concat!($mnemonic, " {}, {}, {}"), out, a.into(), b.into()));
            out
        })*
    };
}

macro_rules! special {
    ($($(#[$doc:meta])* $name:ident = $register:literal;)*) => {
        $($(#[$doc])*
        pub fn $name(&mut self) -> B32 {
            let out = self.b32();
            self.line(format_args!(concat!("mov.u32 {}, ", $register), out));
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
        /// `a / b`
        div = "div.u32";
        /// `a % b`
        rem = "rem.u32";
        /// The smaller of two unsigned numbers.
        min = "min.u32";
        /// `a & b`
        and = "and.b32";
        /// `a | b`
        or = "or.b32";
        /// `a ^ b`
        xor = "xor.b32";
        /// `a << b`
        shl = "shl.b32";
        /// `a >> b`, filling with zeros
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
        /// Index of the thread in its block.
        thread = "%tid.x";
        /// Index of the block in the grid.
        block = "%ctaid.x";
        /// Second index of the block in the grid.
        block_y = "%ctaid.y";
        /// Blocks in the grid.
        blocks = "%nctaid.x";
        /// Index of the cluster in the grid.
        cluster = "%clusterid.x";
        /// Clusters in the grid.
        clusters = "%nclusterid.x";
        /// Index of the block in its cluster.
        cluster_rank = "%cluster_ctarank";
    }

    /// `a * b + c`
    pub fn mad(&mut self, a: impl Into<Source>, b: impl Into<Source>, c: impl Into<Source>) -> B32 {
        let out = self.b32();
        self.line(format_args!("mad.lo.u32 {out}, {}, {}, {}", a.into(), b.into(), c.into()));
        out
    }

    /// `a * b + c` with a 64-bit `c`: the address of an element.
    pub fn mad_wide(&mut self, a: impl Into<Source>, b: impl Into<Source>, c: B64) -> B64 {
        let out = self.b64();
        self.line(format_args!("mad.wide.u32 {out}, {}, {}, {c}", a.into(), b.into()));
        out
    }

    /// A register that starts at `value` and may be [`Ptx::set`] later.
    pub fn variable(&mut self, value: impl Into<Source>) -> B32 {
        let out = self.b32();
        self.set(out, value);
        out
    }

    /// Assigns to a variable.
    pub fn set(&mut self, variable: B32, value: impl Into<Source>) {
        self.line(format_args!("mov.b32 {variable}, {}", value.into()));
    }

    /// `variable += value`
    pub fn increase(&mut self, variable: B32, value: impl Into<Source>) {
        self.line(format_args!("add.u32 {variable}, {variable}, {}", value.into()));
    }

    /// `variable ^= value`
    pub fn flip(&mut self, variable: B32, value: impl Into<Source>) {
        self.line(format_args!("xor.b32 {variable}, {variable}, {}", value.into()));
    }

    /// `yes` where the predicate holds, else `no`.
    pub fn select(&mut self, yes: impl Into<Source>, no: impl Into<Source>, predicate: Pred) -> B32 {
        let out = self.b32();
        self.line(format_args!("selp.b32 {out}, {}, {}, {predicate}", yes.into(), no.into()));
        out
    }

    /// Both predicates.
    pub fn both(&mut self, a: Pred, b: Pred) -> Pred {
        let out = self.pred();
        self.line(format_args!("and.pred {out}, {a}, {b}"));
        out
    }

    /// A 64-bit register with two halves.
    pub fn join(&mut self, low: impl Into<Source>, high: impl Into<Source>) -> B64 {
        let out = self.b64();
        self.line(format_args!("mov.b64 {out}, {{{}, {}}}", low.into(), high.into()));
        out
    }

    /// Exchanges a value with the lane whose index differs in `mask`.
    pub fn shuffle_xor(&mut self, value: B32, mask: u32) -> B32 {
        let out = self.b32();
        self.line(format_args!("shfl.sync.bfly.b32 {out}, {value}, {mask}, 31, -1"));
        out
    }

    /// The value of lane 0 everywhere: tells the assembler that a value is the same in the whole warp.
    pub fn of_first_lane(&mut self, value: B32) -> B32 {
        let out = self.b32();
        self.line(format_args!("shfl.sync.idx.b32 {out}, {value}, 0, 31, -1"));
        out
    }
}
