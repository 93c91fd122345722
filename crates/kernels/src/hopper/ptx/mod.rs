//! PTX as Rust calls: typed registers, one function per instruction.
//!
//! The text is for `sm_90a`, the target that has warpgroup matrix products and register reallocation.

mod asynchronous;
mod control;
mod float;
mod integer;
mod matrix;
mod memory;
mod stream;

pub use asynchronous::TmaLoad;
pub use control::Label;
pub use stream::{CachePriority, Policy};

use std::fmt::{self, Display, Write};

/// ISA 8.3 is the oldest that knows every instruction used here: drivers from CUDA 12.3 on take it.
const HEADER: &str = ".version 8.3\n.target sm_90a\n.address_size 64\n";

macro_rules! register {
    ($name:ident, $prefix:literal, $doc:literal) => {
        #[doc = $doc]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name(u32);

        impl Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!("%", $prefix, "{}"), self.0)
            }
        }
    };
}

register!(B16, "h", "A 16-bit register.");
register!(B32, "r", "A 32-bit integer register, or two packed 16-bit floats.");
register!(B64, "rd", "A 64-bit integer register.");
register!(F32, "f", "A 32-bit float register.");
register!(Pred, "p", "A predicate.");

/// A 32-bit operand: a register or a number.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// A register.
    Register(B32),
    /// An immediate.
    Number(u32),
}

impl From<B32> for Source {
    fn from(register: B32) -> Self {
        Self::Register(register)
    }
}

impl From<u32> for Source {
    fn from(number: u32) -> Self {
        Self::Number(number)
    }
}

impl Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Register(register) => register.fmt(f),
            Self::Number(number) => number.fmt(f),
        }
    }
}

/// An address in shared memory: a register and a constant offset.
#[derive(Clone, Copy, Debug)]
pub struct Shared(pub B32, pub u32);

impl Display for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}+{}]", self.0, self.1)
    }
}

/// An address in device memory: a register and a constant offset.
#[derive(Clone, Copy, Debug)]
pub struct Global(pub B64, pub u32);

impl Display for Global {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}+{}]", self.0, self.1)
    }
}

/// What a kernel takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// A TMA descriptor, by value.
    TensorMap(&'static str),
    /// A device pointer.
    Pointer(&'static str),
    /// A 32-bit number.
    Number(&'static str),
}

/// How a kernel is launched, as far as the assembler must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchBounds {
    /// Threads of a block.
    pub threads: u32,
    /// Blocks that must fit on one multiprocessor: with the threads this caps the registers.
    pub blocks_per_sm: u32,
    /// Blocks of a cluster.
    pub cluster: u32,
}

/// The body of one kernel while it is written.
#[derive(Debug, Default)]
pub struct Ptx {
    body: String,
    b16: u32,
    b32: u32,
    b64: u32,
    f32: u32,
    preds: u32,
    labels: u32,
}

impl Ptx {
    /// The whole module: header, shared memory, one entry point with this body.
    pub fn module(self, entry: &str, parameters: &[Parameter], bounds: LaunchBounds) -> String {
        let parameter = |parameter: &Parameter| match parameter {
            Parameter::TensorMap(name) => format!("\t.param .align 64 .b8 {name}[128]"),
            Parameter::Pointer(name) => format!("\t.param .u64 {name}"),
            Parameter::Number(name) => format!("\t.param .u32 {name}"),
        };
        let parameters: Vec<String> = parameters.iter().map(parameter).collect();
        let LaunchBounds { threads, blocks_per_sm, cluster } = bounds;
        let cluster = match cluster {
            1 => String::new(),
            blocks => format!(".explicitcluster\n.reqnctapercluster {blocks}, 1, 1\n"),
        };
        format!(
            "{HEADER}\n.extern .shared .align 1024 .b8 shared_memory[];\n\n\
             .visible .entry {entry}(\n{}\n)\n.maxntid {threads}, 1, 1\n.minnctapersm {blocks_per_sm}\n{cluster}{{\n\
             \t.reg .b16 %h<{}>;\n\t.reg .b32 %r<{}>;\n\t.reg .b64 %rd<{}>;\n\t.reg .f32 %f<{}>;\n\
             \t.reg .pred %p<{}>;\n{}\tret;\n}}\n",
            parameters.join(",\n"),
            self.b16 + 1,
            self.b32 + 1,
            self.b64 + 1,
            self.f32 + 1,
            self.preds + 1,
            self.body,
        )
    }

    fn line(&mut self, instruction: impl Display) {
        writeln!(self.body, "\t{instruction};").expect("strings take all text");
    }

    /// A fresh 16-bit register.
    pub fn b16(&mut self) -> B16 {
        self.b16 += 1;
        B16(self.b16)
    }

    /// A fresh 32-bit register.
    pub fn b32(&mut self) -> B32 {
        self.b32 += 1;
        B32(self.b32)
    }

    /// A fresh 64-bit register.
    pub fn b64(&mut self) -> B64 {
        self.b64 += 1;
        B64(self.b64)
    }

    /// A fresh float register.
    pub fn f32(&mut self) -> F32 {
        self.f32 += 1;
        F32(self.f32)
    }

    /// Fresh float registers.
    pub fn f32s(&mut self, count: usize) -> Vec<F32> {
        (0..count).map(|_| self.f32()).collect()
    }

    /// A fresh predicate.
    pub fn pred(&mut self) -> Pred {
        self.preds += 1;
        Pred(self.preds)
    }
}
