//! Custom forms of DMAs and signals, whose operands are optional.

use super::{Parser, cursor::Result, ops::Unnamed};
use crate::attribute::Attr;

impl Parser<'_> {
    /// Parses `role(%operand : type)` for optional roles in any order; device and core ids have no type.
    fn roles(&mut self, op: &mut Unnamed, roles: &[&str]) -> Result<Vec<i32>> {
        let mut found = vec![None; roles.len()];
        while let Some(role) = (0..roles.len()).find(|&role| self.cursor.eat_word(roles[role])) {
            self.cursor.require("(")?;
            let operand = self.operand()?;
            if self.cursor.eat(":") {
                self.common_type(op, &[operand])?;
            }
            self.cursor.require(")")?;
            if found[role].replace(operand).is_some() {
                return Err(self
                    .cursor
                    .error(format!("'{}(...)' of {} is given twice", roles[role], op.name)));
            }
        }
        op.operands = found.iter().copied().flatten().collect();
        Ok(found.iter().map(|operand| i32::from(operand.is_some())).collect())
    }

    /// Records which operands are present, if not only the leading ones are.
    fn with_segments(&mut self, mut op: Unnamed, mut present: Vec<i32>, fixed: usize) -> Result<Unnamed> {
        // Cores without subcores are the rule, and texts without that operand are older.
        if present.len() > fixed && present.last() == Some(&0) {
            present.pop();
        }
        op.attributes = op.attributes.with("operandSegmentSizes", Attr::I32s(present));
        op.attributes = self.flags_and_braces(op.attributes)?;
        Ok(op)
    }

    pub(super) fn wait_dma(&mut self, mut op: Unnamed) -> Result<Unnamed> {
        let roles = ["semaphore", "src", "dst", "device_id", "core_id"];
        let present = self.roles(&mut op, &roles)?;
        if let Some(absent) = present[..3].iter().position(|&present| present == 0) {
            return Err(self.cursor.expected(&format!("'{}(...)' of {}", roles[absent], op.name)));
        }
        if present[3..] != [0, 0] {
            return self.with_segments(op, present, 5);
        }
        op.attributes = self.flags_and_braces(op.attributes)?;
        Ok(op)
    }

    pub(super) fn enqueue(&mut self, mut op: Unnamed) -> Result<Unnamed> {
        let roles = [
            "source",
            "source_semaphore",
            "target",
            "target_semaphore",
            "device_id",
            "core_id",
            "subcore_id",
        ];
        let present = self.roles(&mut op, &roles)?;
        self.with_segments(op, present, 6)
    }

    /// Parses `%semaphore, %amount device_id %device : type`.
    pub(super) fn signal(&mut self, mut op: Unnamed) -> Result<Unnamed> {
        op.operands.push(self.operand()?);
        self.cursor.require(",")?;
        op.operands.push(self.operand()?);
        let mut present = vec![1, 1];
        for role in ["device_id", "core_id", "subcore_id"] {
            let found = self.cursor.eat_word(role);
            if found {
                op.operands.push(self.operand()?);
            }
            present.push(i32::from(found));
        }
        let op = match present[2..] == [0, 0, 0] {
            true => {
                op.attributes = self.flags_and_braces(op.attributes)?;
                op
            }
            false => self.with_segments(op, present, 4)?,
        };
        self.cursor.require(":")?;
        self.operand_type(&op)?;
        Ok(op)
    }
}
