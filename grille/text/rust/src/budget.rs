//! What one rendering may cost. minijinja's fuel counts instructions; this counts the bytes and items
//! that single instructions may make or walk, so that `x ~ x` in a loop ends in an error and not in
//! the machine's memory.

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};
use std::cell::Cell;

/// Instructions: about one second of work.
pub const FUEL: u64 = 4_000_000;
/// Values nested deeper than this are refused where they are walked.
pub const MAX_DEPTH: usize = 200;
/// Frames of macros, loops and blocks.
pub const RECURSION_LIMIT: usize = 200;
/// Lists, dicts, namespaces and macros that a template may make. They can hold one another, and a chain
/// of them is dropped and compared recursively.
const MAX_CONTAINERS: u64 = 200_000;
/// A list's item, in bytes of the budget.
const ITEM_BYTES: u64 = 16;

/// 64 MiB, and 64 times the input: long conversations are copied a few times by honest templates.
pub fn for_input(input_bytes: usize) -> u64 {
    (64 << 20) + 64 * input_bytes as u64
}

thread_local! {
    static LEFT: Cell<u64> = const { Cell::new(0) };
    static CONTAINERS: Cell<u64> = const { Cell::new(0) };
}

pub fn start(bytes: u64) {
    LEFT.set(bytes);
    CONTAINERS.set(0);
}

/// Counts `value` if it is a container made by the template.
pub fn count_container(value: &Value) -> Result<(), Error> {
    if value.as_object().is_none() {
        return Ok(());
    }
    CONTAINERS.set(CONTAINERS.get() + 1);
    if CONTAINERS.get() > MAX_CONTAINERS {
        return Err(Error::new(
            ErrorKind::OutOfFuel,
            format!("the template makes more than {MAX_CONTAINERS} lists"),
        ));
    }
    Ok(())
}

/// A lazy sequence as a list: lazy ones can be chained so that each walk goes through all of them.
pub fn materialized(value: Value) -> Result<Value, Error> {
    count_container(&value)?;
    if value.kind() != ValueKind::Iterable {
        return Ok(value);
    }
    let mut items = Vec::new();
    for item in value.try_iter()? {
        charge(ITEM_BYTES)?;
        items.push(item);
    }
    Ok(Value::from(items))
}

pub fn charge(bytes: u64) -> Result<(), Error> {
    match LEFT.get().checked_sub(bytes) {
        Some(left) => {
            LEFT.set(left);
            Ok(())
        }
        None => Err(Error::new(
            ErrorKind::OutOfFuel,
            "the template needs more memory or work than allowed",
        )),
    }
}

pub fn too_deep() -> Error {
    Error::new(
        ErrorKind::InvalidOperation,
        format!("a value is nested more than {MAX_DEPTH} deep"),
    )
}

/// Bytes of a string, items of a list: what one pass over the value itself costs.
pub fn charge_shallow(value: &Value) -> Result<(), Error> {
    charge(shallow(value))
}

pub fn shallow(value: &Value) -> u64 {
    match value.as_str() {
        Some(text) => text.len() as u64,
        None if value.as_object().is_some() => {
            (value.len().unwrap_or(1) as u64).saturating_mul(ITEM_BYTES)
        }
        None => 1,
    }
}

/// What writing the value out costs: everything inside it counts, as often as it is referred to.
pub fn charge_deep(value: &Value) -> Result<(), Error> {
    charge_to_depth(value, MAX_DEPTH)
}

fn charge_to_depth(value: &Value, depth: usize) -> Result<(), Error> {
    charge_shallow(value)?;
    if !matches!(
        value.kind(),
        ValueKind::Seq | ValueKind::Map | ValueKind::Iterable
    ) {
        return Ok(());
    }
    let depth = depth.checked_sub(1).ok_or_else(too_deep)?;
    for item in value.try_iter()? {
        charge_to_depth(&item, depth)?;
        if value.kind() == ValueKind::Map {
            charge_to_depth(&value.get_item(&item)?, depth)?;
        }
    }
    Ok(())
}
