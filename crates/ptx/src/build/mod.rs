//! Builds PTX with typed registers, one function per instruction.
//!
//! The target is `sm_90a`, which has TMA, wgmma and register reallocation.

mod asynchronous;
mod control;
mod float;
mod integer;
mod matrix;
mod memory;
mod stream;

pub use asynchronous::TmaLoad;
pub use control::Label;
pub use stream::Policy;

use crate::ir::{
    Directive, Function, Guard, Instruction, Module, Name, Operand, ParameterDecl, Position, RegisterDecl,
    Variable,
};

/// The oldest ISA with every instruction used here; drivers from CUDA 12.3 on accept it.
const VERSION: &str = "8.3";

macro_rules! register {
    ($name:ident, $prefix:literal, $doc:literal) => {
        #[doc = $doc]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name(u32);

        impl $name {
            fn name(self) -> Name<'static> {
                format!(concat!("%", $prefix, "{}"), self.0).into()
            }
        }

        impl From<$name> for Operand<'static> {
            fn from(register: $name) -> Self {
                Self::Word(register.name())
            }
        }
    };
}

register!(B16, "h", "A 16-bit register.");
register!(B32, "r", "A 32-bit integer register, or two packed 16-bit floats.");
register!(B64, "rd", "A 64-bit integer register.");
register!(F32, "f", "A 32-bit float register.");
register!(Pred, "p", "A predicate register.");

/// A 32-bit operand: a register or an immediate.
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

impl From<Source> for Operand<'static> {
    fn from(source: Source) -> Self {
        match source {
            Source::Register(register) => register.into(),
            Source::Number(number) => number.into(),
        }
    }
}

impl From<u32> for Operand<'static> {
    fn from(number: u32) -> Self {
        Self::Word(number.to_string().into())
    }
}

/// An address in shared memory: a register and a constant offset.
#[derive(Clone, Copy, Debug)]
pub struct Shared(pub B32, pub u32);

impl From<Shared> for Operand<'static> {
    fn from(Shared(base, offset): Shared) -> Self {
        Self::Address(vec![Self::Offset(base.name(), offset.to_string().into())])
    }
}

/// An address in device memory: a register and a constant offset.
#[derive(Clone, Copy, Debug)]
pub struct Global(pub B64, pub u32);

impl From<Global> for Operand<'static> {
    fn from(Global(base, offset): Global) -> Self {
        Self::Address(vec![Self::Offset(base.name(), offset.to_string().into())])
    }
}

/// `[%r1]`
fn address(base: impl Into<Operand<'static>>) -> Operand<'static> {
    Operand::Address(vec![base.into()])
}

/// `{%r1, %r2}`
fn vector<T: Copy + Into<Operand<'static>>>(registers: &[T]) -> Operand<'static> {
    Operand::Vector(registers.iter().copied().map(Into::into).collect())
}

/// A kernel parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// A TMA descriptor, by value.
    TensorMap(&'static str),
    /// A device pointer.
    Pointer(&'static str),
    /// A 32-bit number.
    Number(&'static str),
}

impl Parameter {
    fn declaration(self) -> ParameterDecl<'static> {
        let (kind, name, elements) = match self {
            Self::TensorMap(name) => (".param .align 64 .b8", name, Some("128".into())),
            Self::Pointer(name) => (".param .u64", name, None),
            Self::Number(name) => (".param .u32", name, None),
        };
        ParameterDecl { kind: kind.into(), name: name.into(), elements, position: Position::default() }
    }
}

/// How a kernel is launched, as far as the assembler must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchBounds {
    /// Threads of a CTA.
    pub threads: u32,
    /// CTAs that must fit on one SM; with the threads this caps the registers.
    pub blocks_per_sm: u32,
    /// CTAs of a cluster.
    pub cluster: u32,
}

impl LaunchBounds {
    fn directives(self) -> Vec<Directive<'static>> {
        let Self { threads, blocks_per_sm, cluster } = self;
        let mut directives =
            vec![directive(".maxntid", &[threads, 1, 1]), directive(".minnctapersm", &[blocks_per_sm])];
        if cluster > 1 {
            directives.push(directive(".explicitcluster", &[]));
            directives.push(directive(".reqnctapercluster", &[cluster, 1, 1]));
        }
        directives
    }
}

fn directive(name: &'static str, arguments: &[u32]) -> Directive<'static> {
    let arguments = arguments.iter().map(|argument| argument.to_string().into()).collect();
    Directive { name: name.into(), arguments, position: Position::default() }
}

/// The body of one kernel under construction.
#[derive(Debug, Default)]
pub struct Ptx {
    body: Function<'static>,
    b16: u32,
    b32: u32,
    b64: u32,
    f32: u32,
    preds: u32,
    labels: u32,
}

impl Ptx {
    /// The whole module: header, dynamic shared memory, and one entry point with this body.
    pub fn module(mut self, entry: &str, parameters: &[Parameter], bounds: LaunchBounds) -> Module<'static> {
        self.emit("ret", []);
        let registers = [
            (".b16", "%h", self.b16),
            (".b32", "%r", self.b32),
            (".b64", "%rd", self.b64),
            (".f32", "%f", self.f32),
            (".pred", "%p", self.preds),
        ];
        let registers = registers.map(|(kind, name, last)| RegisterDecl {
            kind: kind.into(),
            name: name.into(),
            count: Some((last + 1).to_string().into()),
            position: Position::default(),
        });
        let kernel = Function {
            linkage: ".visible".into(),
            is_entry: true,
            name: entry.to_owned().into(),
            parameters: parameters.iter().map(|parameter| parameter.declaration()).collect(),
            directives: bounds.directives(),
            registers: registers.into(),
            ..self.body
        };
        let shared_memory = Variable {
            text: ".extern .shared .align 1024 .b8 shared_memory[]".into(),
            position: Position::default(),
        };
        Module {
            version: VERSION.into(),
            target: "sm_90a".into(),
            address_size: "64".into(),
            variables: vec![shared_memory],
            functions: vec![kernel],
        }
    }

    fn push(
        &mut self,
        guard: Option<Guard<'static>>,
        opcode: impl Into<Name<'static>>,
        operands: impl IntoIterator<Item = Operand<'static>>,
    ) {
        let operands = operands.into_iter().collect();
        let position = Position::default();
        self.body.instructions.push(Instruction { guard, opcode: opcode.into(), operands, position });
    }

    /// Appends an instruction.
    fn emit(
        &mut self,
        opcode: impl Into<Name<'static>>,
        operands: impl IntoIterator<Item = Operand<'static>>,
    ) {
        self.push(None, opcode, operands);
    }

    /// Appends an instruction that is executed where the predicate holds.
    fn emit_if(
        &mut self,
        predicate: Pred,
        opcode: impl Into<Name<'static>>,
        operands: impl IntoIterator<Item = Operand<'static>>,
    ) {
        self.push(Some(Guard { predicate: predicate.name(), negated: false }), opcode, operands);
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
