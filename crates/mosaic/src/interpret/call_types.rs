//! What a program must pass to a bare kernel, so that one can be written around it.

use super::{
    Options, SimulateError, Tensor,
    element::Element,
    kernel::{Bound, Kernel},
    kernel_attributes::kernel_function,
    machine::Machine,
    program::Unrunnable,
    signature::result_windows,
    window::WindowSpec,
};
use crate::{
    ir::Module,
    types::{DYNAMIC, MemorySpace, Type},
};

/// Types of the operands and results of a call of a bare kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct CallTypes {
    /// Name of the kernel's function.
    pub name: String,
    /// Tensor types of the operands.
    pub operands: Vec<Type>,
    /// Numbers of the operands that the kernel expects in HBM.
    pub in_hbm: Vec<usize>,
    /// Tensor types of the results.
    pub results: Vec<Type>,
    /// Whether it sends to other devices.
    pub communicates: bool,
    /// Whether it uses the barrier semaphore.
    pub has_barrier: bool,
    /// Whether extents depend on operands, and are those of one block or of a table of zeros.
    pub assumed: bool,
}

impl CallTypes {
    /// Reads the types from the kernel's arguments and windows.
    pub fn of(module: &Module, options: &Options<'_>) -> Result<Self, SimulateError> {
        let function = kernel_function(module)?;
        let kernel = Kernel::new(module)?;
        let results = result_windows(&kernel, function);
        let extents = kernel.grid.iter().filter(|extent| extent.is_none());
        let mut operands: Vec<Type> = extents.map(|_| Type::tensor([], Type::Integer(32))).collect();
        let assumed = kernel.prefetched > 0 || !operands.is_empty();
        let tables = kernel.empty_tables()?;
        let (mut in_hbm, mut outputs) = (Vec::new(), Vec::new());
        let first = kernel.grid.len();
        for number in first..first + kernel.prefetched + kernel.windows.len() {
            let (name, memref) = kernel.argument(number);
            let window = number.checked_sub(first + kernel.prefetched);
            let shape = match window.and_then(|window| kernel.windows.get(window)) {
                Some(blocks @ WindowSpec::Blocks { .. }) => {
                    kernel.assumed_extents(blocks, &tables, options)?
                }
                _ => memref.shape.clone(),
            };
            let ty = Type::MemRef(memref.clone());
            if shape.contains(&DYNAMIC) || Element::of(&ty).is_none() {
                let message = format!("operand %{name} of the kernel is {ty}, which has no tensor type");
                return Err(Unrunnable::Kernel(message).into());
            }
            let tensor = Type::tensor(shape, (*memref.element).clone());
            if window.is_some_and(|window| results.contains(&window)) {
                outputs.push(tensor);
            } else {
                if memref.space == Some(MemorySpace::Hbm) {
                    in_hbm.push(operands.len());
                }
                operands.push(tensor);
            }
        }
        Ok(Self {
            name: function.name.clone(),
            operands,
            in_hbm,
            results: outputs,
            communicates: kernel.program.communicates,
            has_barrier: kernel.program.has_barrier,
            assumed,
        })
    }
}

impl Kernel {
    /// Shape covered by the blocks of a window, if neither the grid nor the blocks depend on operands.
    pub(super) fn static_extents(
        &self,
        window: &WindowSpec,
        options: &Options<'_>,
    ) -> Result<Option<Vec<usize>>, SimulateError> {
        if self.prefetched > 0 || self.grid.contains(&None) {
            return Ok(None);
        }
        self.assumed_extents(window, &[], options).map(Some)
    }

    /// Shape covered by the blocks of a window with these scalar-prefetch operands, if a dynamic grid has one
    /// step per dimension.
    fn assumed_extents(
        &self,
        window: &WindowSpec,
        tables: &[Tensor],
        options: &Options<'_>,
    ) -> Result<Vec<usize>, SimulateError> {
        let mut machine = Machine::new(&self.program, options, tables);
        let grid = self.grid.iter().map(|extent| extent.unwrap_or(1)).collect();
        let mut views = Vec::new();
        for table in tables {
            views.push(machine.allocate_filled("table", MemorySpace::Smem, table)?);
        }
        Ok(self.covered(&mut machine, window, &Bound::new(grid, views))?)
    }

    /// Scalar-prefetch operands that hold zeros.
    fn empty_tables(&self) -> Result<Vec<Tensor>, Unrunnable> {
        let table = |number: usize| {
            let (name, memref) = self.argument(self.grid.len() + number);
            let element = Element::of(&Type::MemRef(memref.clone()));
            let elements = memref.shape.iter().try_fold(1usize, |all, &extent| all.checked_mul(extent));
            let bytes = element.zip(elements.filter(|&elements| elements <= MAX_TABLE));
            let Some((element, elements)) = bytes else {
                return Err(Unrunnable::Kernel(format!("scalar-prefetch operand %{name} has no fixed size")));
            };
            Ok(Tensor {
                element,
                shape: memref.shape.clone(),
                bytes: vec![0; elements * element.bytes()].into(),
            })
        };
        (0..self.prefetched).map(table).collect()
    }
}

/// Elements of the largest scalar-prefetch operand: SMEM has fewer.
const MAX_TABLE: usize = 1 << 22;
