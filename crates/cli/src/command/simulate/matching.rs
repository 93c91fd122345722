//! Which tensor of a file is which operand.
//!
//! Python's safetensors stores tensors by type and name, so the stored order means nothing in most files.
//! Names, numbers or shapes must decide; where they do not, the order is refused.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use octile_mosaic::interpret::{Element, OperandSpec, Signature};
use safetensors::Dtype;

use super::{spelled, tensors::element};
use crate::print::counted;

/// A tensor that may be an operand.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Candidate {
    pub name: String,
    pub dtype: Dtype,
    pub shape: Vec<usize>,
}

impl Candidate {
    /// Whether it can be passed for an operand; JAX narrows 64-bit arrays.
    fn fits(&self, spec: &OperandSpec) -> bool {
        let narrowed = match self.dtype {
            Dtype::F64 => Some(Element::Float(octile_mosaic::Float::F32)),
            Dtype::I64 | Dtype::U64 => Some(Element::Integer(4)),
            other => element(other),
        };
        narrowed.is_some_and(|element| spec.fits(element, &self.shape))
    }

    fn described(&self) -> String {
        let dtype = format!("{:?}", self.dtype).to_ascii_lowercase();
        format!("{} {dtype}{:?}", self.name, self.shape)
    }
}

/// Matches tensors to operands: by name, by number, or by type and shape where that leaves one choice.
/// Returns the names in operand order.
pub(super) fn match_operands(
    file: &str,
    candidates: &[Candidate],
    signature: &Signature,
) -> Result<Vec<String>> {
    let specs = &signature.operands;
    if let Some(names) = by_name(candidates, specs) {
        return Ok(names);
    }
    if candidates.len() < specs.len() {
        let takes: Vec<String> = specs.iter().map(|spec| spelled(spec.element, &spec.shape)).collect();
        let has: Vec<String> = candidates.iter().map(Candidate::described).collect();
        bail!(
            "@{} takes {} operands ({}), but {file} has {} for them ({}): add the others, or leave out \
             --tensors for random operands",
            signature.entry,
            specs.len(),
            takes.join(", "),
            counted(candidates.len(), "tensor"),
            has.join(", ")
        );
    }
    if let Some(names) = by_number(candidates, specs) {
        return Ok(names);
    }
    match by_shape(candidates, specs) {
        Ok(names) => Ok(names),
        Err(Unclear::NoFit(number)) => {
            let spec = &specs[number];
            let has: Vec<String> = candidates.iter().map(Candidate::described).collect();
            bail!(
                "no tensor of {file} fits operand {number} of @{}, which is {}: it has {}",
                signature.entry,
                spelled(spec.element, &spec.shape),
                has.join(", ")
            )
        }
        Err(Unclear::Several(several)) => match by_deliberate_order(candidates, specs) {
            Some(names) => Ok(names),
            None => bail!(
                "cannot tell the order of {} in {file}: they have the same type and shape; list all operands in \
                 the order of the call, such as --operands {}",
                joined(&several),
                usual_order(candidates, specs).join(",")
            ),
        },
    }
}

fn names<'c>(candidates: impl IntoIterator<Item = &'c Candidate>) -> Vec<String> {
    candidates.into_iter().map(|candidate| candidate.name.clone()).collect()
}

/// Every operand has a name in the module, and the file a tensor of that name.
fn by_name(candidates: &[Candidate], specs: &[OperandSpec]) -> Option<Vec<String>> {
    let named = |spec: &OperandSpec| {
        let name = spec.name.as_ref()?;
        candidates.iter().find(|candidate| candidate.name == *name).map(|found| found.name.clone())
    };
    specs.iter().map(named).collect()
}

/// As many names as operands are one prefix and the numbers 0, 1, 2 and so on. Other tensors are left out if
/// these fit.
fn by_number(candidates: &[Candidate], specs: &[OperandSpec]) -> Option<Vec<String>> {
    let mut series: BTreeMap<&str, BTreeMap<usize, &Candidate>> = BTreeMap::new();
    for candidate in candidates {
        let prefix = candidate.name.trim_end_matches(|c: char| c.is_ascii_digit());
        if let Ok(number) = candidate.name[prefix.len()..].parse() {
            series.entry(prefix).or_default().insert(number, candidate);
        }
    }
    let is_alone = candidates.len() == specs.len();
    let is_complete = |numbered: &BTreeMap<usize, &Candidate>| {
        let fits = || numbered.values().zip(specs).all(|(candidate, spec)| candidate.fits(spec));
        numbered.len() == specs.len() && numbered.keys().copied().eq(0..specs.len()) && (is_alone || fits())
    };
    let mut complete = series.into_values().filter(is_complete);
    let first = complete.next()?;
    complete.next().is_none().then(|| names(first.into_values()))
}

/// Why types and shapes do not decide.
enum Unclear {
    /// Nothing fits this operand.
    NoFit(usize),
    /// These tensors fit the same operands.
    Several(Vec<String>),
}

/// Assigns operands whose names are in the file, then those that only one remaining tensor fits.
fn by_shape(candidates: &[Candidate], specs: &[OperandSpec]) -> Result<Vec<String>, Unclear> {
    let named = |spec: &OperandSpec| {
        let name = spec.name.as_ref()?;
        candidates.iter().position(|candidate| candidate.name == *name)
    };
    let mut assigned: Vec<Option<usize>> = specs.iter().map(named).collect();
    while let Some(open) = assigned.iter().position(Option::is_none) {
        let free = |number: usize| {
            let taken = assigned.contains(&Some(number));
            (!taken).then(|| candidates.get(number)).flatten()
        };
        let fitting = |spec: &OperandSpec| -> Vec<usize> {
            (0..candidates.len()).filter(|&n| free(n).is_some_and(|candidate| candidate.fits(spec))).collect()
        };
        let mut next = None;
        for (number, spec) in specs.iter().enumerate().filter(|(number, _)| assigned[*number].is_none()) {
            match fitting(spec).as_slice() {
                [] => return Err(Unclear::NoFit(number)),
                [only] => next = next.or(Some((number, *only))),
                _ => {}
            }
        }
        match next {
            Some((number, only)) => assigned[number] = Some(only),
            None => {
                let several = fitting(&specs[open]).into_iter().map(|n| &candidates[n]);
                return Err(Unclear::Several(names(several)));
            }
        }
    }
    Ok(names(assigned.into_iter().flatten().map(|number| &candidates[number])))
}

/// Stored order, where the writer chose it: it is not the order of types and names that safetensors makes.
fn by_deliberate_order(candidates: &[Candidate], specs: &[OperandSpec]) -> Option<Vec<String>> {
    let key = |candidate: &Candidate| (std::cmp::Reverse(candidate.dtype), candidate.name.clone());
    let is_chosen = !candidates.is_sorted_by_key(key);
    let fits = candidates.len() == specs.len()
        && candidates.iter().zip(specs).all(|(candidate, spec)| candidate.fits(spec));
    (is_chosen && fits).then(|| names(candidates))
}

/// Names in the order in which functions usually take them, for an example.
fn usual_order(candidates: &[Candidate], specs: &[OperandSpec]) -> Vec<String> {
    const USUAL: [&str; 12] = ["q", "query", "x", "lhs", "a", "k", "key", "w", "rhs", "b", "v", "value"];
    let fits = |candidate: &&Candidate| specs.iter().any(|spec| candidate.fits(spec));
    let mut names = names(candidates.iter().filter(fits));
    names.sort_by_key(|name| USUAL.iter().position(|usual| usual == name).unwrap_or(USUAL.len()));
    names
}

/// `a, b and c`
fn joined(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use octile_mosaic::Float;

    use super::*;

    fn specs(operands: &[(Option<&str>, &[usize])]) -> Signature {
        let operand = |(name, shape): &(Option<&str>, &[usize])| {
            OperandSpec::new(name.map(str::to_owned), Element::Float(Float::F32), shape.to_vec())
        };
        let operands = operands.iter().map(operand).collect();
        Signature { entry: "main".to_owned(), operands, results: 1 }
    }

    fn stored(tensors: &[(&str, Dtype, &[usize])]) -> Vec<Candidate> {
        let candidate = |(name, dtype, shape): &(&str, Dtype, &[usize])| Candidate {
            name: (*name).to_owned(),
            dtype: *dtype,
            shape: shape.to_vec(),
        };
        tensors.iter().map(candidate).collect()
    }

    fn order(signature: &Signature, tensors: &[(&str, Dtype, &[usize])]) -> String {
        match match_operands("t", &stored(tensors), signature) {
            Ok(names) => names.join(" "),
            Err(error) => error.to_string(),
        }
    }

    const SQUARE: &[usize] = &[8, 8];

    #[test]
    fn names_of_the_module_decide() {
        let signature = specs(&[(Some("q"), SQUARE), (Some("k"), SQUARE), (Some("v"), SQUARE)]);
        let f32 = Dtype::F32;
        assert_eq!(order(&signature, &[("k", f32, SQUARE), ("q", f32, SQUARE), ("v", f32, SQUARE)]), "q k v");
    }

    #[test]
    fn names_of_some_operands_leave_the_others_to_their_shapes() {
        let signature = specs(&[(None, SQUARE), (Some("k"), SQUARE)]);
        assert_eq!(order(&signature, &[("k", Dtype::F32, SQUARE), ("q", Dtype::F32, SQUARE)]), "q k");
    }

    #[test]
    fn numbers_decide_whatever_the_stored_order() {
        let signature = specs(&[(None, SQUARE), (None, SQUARE)]);
        for (first, second) in [("a01", "a00"), ("arg1", "arg0"), ("1", "0")] {
            let said = order(&signature, &[(first, Dtype::F32, SQUARE), (second, Dtype::F32, SQUARE)]);
            assert_eq!(said, format!("{second} {first}"));
        }
    }

    #[test]
    fn shapes_decide_where_one_choice_is_left() {
        let signature = specs(&[(None, &[8]), (None, SQUARE)]);
        assert_eq!(order(&signature, &[("b", Dtype::F32, SQUARE), ("c", Dtype::F64, &[8])]), "c b");
        let said = order(&signature, &[("b", Dtype::F32, SQUARE), ("c", Dtype::I32, &[8])]);
        assert_eq!(
            said,
            "no tensor of t fits operand 0 of @main, which is f32[8]: it has b f32[8, 8], c i32[8]"
        );
    }

    #[test]
    fn an_order_that_only_sorting_made_is_refused() {
        let signature = specs(&[(None, SQUARE), (None, SQUARE), (None, SQUARE)]);
        let f32 = Dtype::F32;
        let said = order(&signature, &[("k", f32, SQUARE), ("q", f32, SQUARE), ("v", f32, SQUARE)]);
        assert_eq!(
            said,
            "cannot tell the order of k, q and v in t: they have the same type and shape; list all operands in the \
             order of the call, such as --operands q,k,v"
        );
        // Another writer stored them in the order of the call.
        assert_eq!(order(&signature, &[("q", f32, SQUARE), ("k", f32, SQUARE), ("v", f32, SQUARE)]), "q k v");
    }

    #[test]
    fn missing_tensors_are_counted() {
        let said = order(&specs(&[(None, SQUARE), (None, &[8])]), &[("x", Dtype::F32, SQUARE)]);
        assert!(
            said.starts_with("@main takes 2 operands (f32[8, 8], f32[8]), but t has 1 tensor "),
            "{said}"
        );
    }
}
