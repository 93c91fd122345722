//! Type parser.

use super::{Parser, cursor::Result};
use crate::types::{DYNAMIC, Float, Layout, MemRef, MemorySpace, Type};

const FLOATS: [Float; 5] = [Float::F32, Float::Bf16, Float::F16, Float::F8E4M3FN, Float::F8E5M2];

const SPACES: [MemorySpace; 5] =
    [MemorySpace::Any, MemorySpace::Hbm, MemorySpace::Vmem, MemorySpace::Smem, MemorySpace::Semaphore];

impl Parser<'_> {
    /// Parses any type; unknown ones are kept verbatim.
    pub(super) fn ty(&mut self) -> Result<Type> {
        self.nested(|p| match p.cursor.peek() {
            Some('!') => p.dialect_type(),
            Some('(') => p.function_type(),
            _ => p.builtin_type(),
        })
    }

    pub(super) fn types(&mut self) -> Result<Vec<Type>> {
        let mut types = vec![self.ty()?];
        while self.cursor.eat(",") {
            types.push(self.ty()?);
        }
        Ok(types)
    }

    /// Parses `type` or `(type, type)`.
    pub(super) fn result_types(&mut self) -> Result<Vec<Type>> {
        match self.cursor.looking_at("(") {
            true => self.list("(", ")", Self::ty),
            false => Ok(vec![self.ty()?]),
        }
    }

    fn builtin_type(&mut self) -> Result<Type> {
        let start = self.cursor.clone();
        let Some(word) = self.cursor.word() else {
            return Err(self.cursor.expected("a type"));
        };
        if let Some(float) = FLOATS.into_iter().find(|float| float.to_string() == word) {
            return Ok(float.into());
        }
        match word {
            "index" => Ok(Type::Index),
            "vector" => self.shaped(Type::Vector),
            "tensor" => self.shaped(Type::Tensor),
            "memref" => self.memref(),
            "f64" | "f80" | "f128" | "none" | "tf32" | "f8E4M3" | "f8E3M4" | "f8E4M3B11FNUZ"
            | "f8E4M3FNUZ" | "f8E5M2FNUZ" | "f8E8M0FNU" | "f6E2M3FN" | "f6E3M2FN" | "f4E2M1FN" => {
                Ok(Type::Other(word.to_owned()))
            }
            "tuple" | "complex" => {
                self.cursor.balanced()?;
                Ok(Type::Other(self.cursor.since(&start).to_owned()))
            }
            _ => match word.strip_prefix('i').map(str::parse) {
                Some(Ok(bits)) => Ok(Type::Integer(bits)),
                _ if is_signed_integer(word) => Ok(Type::Other(word.to_owned())),
                _ => Err(start.clone().expected("a type")),
            },
        }
    }

    fn shaped(&mut self, make: fn(Vec<usize>, Box<Type>) -> Type) -> Result<Type> {
        self.cursor.require("<")?;
        let shape = self.extents()?;
        let element = self.ty()?;
        if self.cursor.looking_at(",") {
            return Err(self.cursor.unsupported("vectors and tensors with a layout are not supported"));
        }
        self.cursor.require(">")?;
        Ok(make(shape, Box::new(element)))
    }

    /// Parses extents before an element type, `2x128x`.
    fn extents(&mut self) -> Result<Vec<usize>> {
        let mut extents = Vec::new();
        loop {
            match self.cursor.peek() {
                Some('?') => {
                    self.cursor.require("?")?;
                    extents.push(DYNAMIC);
                }
                Some(c) if c.is_ascii_digit() => {
                    let extent = self.cursor.unsigned()?;
                    if i64::try_from(extent).is_err() {
                        return Err(self.cursor.error(format!("an extent of {extent} does not fit 64 bits")));
                    }
                    extents.push(extent);
                }
                Some('[') => return Err(self.cursor.unsupported("scalable vectors are not supported")),
                _ => return Ok(extents),
            }
            self.cursor.require("x")?;
        }
    }

    fn memref(&mut self) -> Result<Type> {
        self.cursor.require("<")?;
        let shape = self.extents()?;
        let element = Box::new(self.ty()?);
        let (mut layout, mut space) = (None, None);
        while self.cursor.eat(",") {
            match self.memory_space()? {
                Some(named) => space = Some(named),
                None => layout = Some(self.layout()?),
            }
        }
        self.cursor.require(">")?;
        Ok(Type::MemRef(MemRef { shape, element, layout, space }))
    }

    /// Parses `#tpu.memory_space<vmem>`.
    fn memory_space(&mut self) -> Result<Option<MemorySpace>> {
        if !self.cursor.eat("#tpu.memory_space<") {
            return Ok(None);
        }
        let here = self.cursor.clone();
        let name = self.cursor.word().unwrap_or_default();
        let spelled = |space: &MemorySpace| space.to_string() == format!("#tpu.memory_space<{name}>");
        let Some(space) = SPACES.into_iter().find(spelled) else {
            return Err(here.clone().expected("any, hbm, vmem, smem or semaphore_mem"));
        };
        // The core type, if given, is that of the kernel.
        if self.cursor.eat(",") {
            self.cursor.word();
        }
        self.cursor.require(">")?;
        Ok(Some(space))
    }

    fn layout(&mut self) -> Result<Layout> {
        if self.cursor.eat("#tpu.tiled<") {
            let mut tiles = Vec::new();
            while self.cursor.looking_at("(") {
                tiles.push(self.list("(", ")", |p| p.cursor.unsigned())?);
            }
            self.cursor.require(",")?;
            let strides = self.list("[", "]", |p| p.cursor.unsigned())?;
            self.cursor.require(">")?;
            return Ok(Layout::Tiled { tiles, strides });
        }
        Ok(Layout::Other(self.attribute()?.to_string()))
    }

    /// Parses `!tpu.semaphore`, another dialect's type, or an alias.
    fn dialect_type(&mut self) -> Result<Type> {
        let start = self.cursor.clone();
        self.cursor.require("!")?;
        let name = self.cursor.suffix()?;
        match name {
            "tpu.dma_semaphore" => return Ok(Type::DmaSemaphore),
            "tpu.semaphore" => return Ok(Type::Semaphore),
            _ => {}
        }
        if let Some(alias) = self.aliases.get(&format!("!{name}")).cloned() {
            return self.elsewhere(alias, Self::ty);
        }
        if !name.contains('.') {
            return Err(start.clone().error(format!("the type alias '!{name}' is not defined")));
        }
        if self.cursor.looking_at("<") {
            self.cursor.balanced()?;
        }
        Ok(Type::Other(self.cursor.since(&start).to_owned()))
    }

    fn function_type(&mut self) -> Result<Type> {
        let (arguments, results) = self.function_types()?;
        let spell = |types: &[Type]| crate::types::join(types, ", ");
        Ok(Type::Other(format!("({}) -> ({})", spell(&arguments), spell(&results))))
    }

    /// Parses `(types) -> types`.
    pub(super) fn function_types(&mut self) -> Result<(Vec<Type>, Vec<Type>)> {
        let arguments = self.list("(", ")", Self::ty)?;
        self.cursor.require("->")?;
        Ok((arguments, self.result_types()?))
    }
}

/// Parses `si8`, `ui32`.
fn is_signed_integer(word: &str) -> bool {
    let digits = word.strip_prefix("si").or_else(|| word.strip_prefix("ui"));
    digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}
