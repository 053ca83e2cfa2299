//! Puts every instruction that can make or walk a large value behind a function that first charges the
//! budget, by rewriting the compiled instructions. The functions' names hold a dot, so that no template
//! can call or shadow them.

use crate::budget::{charge, charge_deep, charge_shallow, count_container, materialized, shallow};
use crate::{methods, python};
use minijinja::machinery::{Instruction, Instructions};
use minijinja::value::{Kwargs, Object, ObjectRepr, Rest, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, Value};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, Weak};

const ADD: &str = "grille.add";
const MULTIPLY: &str = "grille.multiply";
const REMAINDER: &str = "grille.remainder";
const CONCATENATE: &str = "grille.concatenate";
const SLICE: &str = "grille.slice";
const SET_ATTRIBUTE: &str = "grille.set_attribute";
const MADE: &str = "grille.made";
const COMPARE: [(&str, &str); 7] = [
    ("grille.eq", "a == b"),
    ("grille.ne", "a != b"),
    ("grille.lt", "a < b"),
    ("grille.le", "a <= b"),
    ("grille.gt", "a > b"),
    ("grille.ge", "a >= b"),
    ("grille.in", "a in b"),
];
/// Filters that write a value out or compare all that is inside: they cost what the whole value weighs.
const DEEP_FILTERS: &[&str] = &[
    "capitalize",
    "dictsort",
    "e",
    "escape",
    "format",
    "groupby",
    "lines",
    "lower",
    "max",
    "min",
    "pprint",
    "safe",
    "sort",
    "split",
    "string",
    "sum",
    "title",
    "trim",
    "unique",
    "upper",
    "map",
];
const SHALLOW_FILTERS: &[&str] = &[
    "abs",
    "attr",
    "batch",
    "bool",
    "count",
    "d",
    "default",
    "first",
    "float",
    "indent",
    "int",
    "items",
    "join",
    "last",
    "length",
    "list",
    "reject",
    "rejectattr",
    "replace",
    "reverse",
    "round",
    "select",
    "selectattr",
    "slice",
    "tojson",
];
const TESTS: &[&str] = &[
    "eq",
    "equalto",
    "==",
    "ne",
    "!=",
    "lt",
    "lessthan",
    "<",
    "le",
    "<=",
    "gt",
    "greaterthan",
    ">",
    "ge",
    ">=",
    "in",
    "startingwith",
    "endingwith",
    "lower",
    "upper",
];

/// minijinja's own namespace can hold itself and be printed, which does not end. This one is opaque.
#[derive(Default)]
struct Namespace(Mutex<BTreeMap<String, Value>>);

impl fmt::Debug for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<namespace>")
    }
}

impl Object for Namespace {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.0.lock().ok()?.get(key.as_str()?).cloned()
    }
}

impl Namespace {
    fn set(&self, name: &str, value: Value) {
        if let Ok(mut values) = self.0.lock() {
            // The old value is dropped after the lock is.
            let _old = values.insert(name.to_string(), value);
        }
    }
}

thread_local! {
    static NAMESPACES: RefCell<Vec<Weak<Namespace>>> = const { RefCell::new(Vec::new()) };
}

/// To be called when a rendering is over: a namespace that holds itself would never be dropped.
pub fn clear_namespaces() {
    for space in NAMESPACES.take() {
        let Some(space) = space.upgrade() else {
            continue;
        };
        let values = space
            .0
            .lock()
            .map(|mut values| std::mem::take(&mut *values));
        drop(values);
    }
}

fn namespace(defaults: Option<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let space = Arc::new(Namespace::default());
    let value = Value::from_dyn_object(space.clone());
    count_container(&value)?;
    NAMESPACES.with_borrow_mut(|all| all.push(Arc::downgrade(&space)));
    if let Some(defaults) = defaults.filter(|v| v.kind() == ValueKind::Map) {
        for key in defaults.try_iter()? {
            space.set(&key.to_string(), defaults.get_item(&key)?);
        }
    }
    for name in kwargs.args() {
        space.set(name, kwargs.get(name)?);
    }
    Ok(value)
}

fn set_attribute(value: Value, target: &Value, name: &str) -> Result<(), Error> {
    match target.downcast_object_ref::<Namespace>() {
        Some(space) => {
            space.set(name, value);
            Ok(())
        }
        None => Err(Error::new(
            ErrorKind::InvalidOperation,
            format!(
                "can only assign to attributes of a namespace, not of {}",
                target.kind()
            ),
        )),
    }
}

/// Evaluates `operation` (an expression of a, b, c, d) with minijinja's own operators.
fn evaluate(state: &State, operation: &'static str, values: &[Value]) -> Result<Value, Error> {
    let names = ["a", "b", "c", "d"];
    let context: BTreeMap<&str, Value> = names.into_iter().zip(values.iter().cloned()).collect();
    state.env().compile_expression(operation)?.eval(context)
}

fn is_list(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable)
}

fn add(state: &State, a: Value, b: Value) -> Result<Value, Error> {
    if let (Some(x), Some(y)) = (a.as_i64(), b.as_i64()) {
        if let (Some(sum), true) = (x.checked_add(y), a.is_integer() && b.is_integer()) {
            return Ok(Value::from(sum));
        }
    }
    if let (Some(x), Some(y)) = (a.as_str(), b.as_str()) {
        charge((x.len() + y.len()) as u64)?;
        return Ok(Value::from([x, y].concat()));
    }
    if is_list(&a) && is_list(&b) {
        // Joined lists are lazy: an item costs little until the list is walked.
        charge((shallow(&a) + shallow(&b)) / 8)?;
    }
    evaluate(state, "a + b", &[a, b])
}

fn multiply(state: &State, a: Value, b: Value) -> Result<Value, Error> {
    for (value, count) in [(&a, &b), (&b, &a)] {
        if value.as_str().is_some() || is_list(value) {
            charge(shallow(value).saturating_mul(count.as_usize().unwrap_or(0) as u64))?;
        }
    }
    materialized(evaluate(state, "a * b", &[a, b])?)
}

fn remainder(state: &State, a: Value, b: Value) -> Result<Value, Error> {
    match a.as_str() {
        Some(format) => methods::percent(format, &b),
        None => evaluate(state, "a % b", &[a, b]),
    }
}

fn concatenate(a: &Value, b: &Value) -> Result<Value, Error> {
    let mut text = python::str(a)?;
    text.push_str(&python::str(b)?);
    Ok(Value::from(text))
}

fn compare(state: &State, operation: &'static str, a: Value, b: Value) -> Result<Value, Error> {
    for value in [&a, &b] {
        // Strings stop at the first difference; lists may hold many long equal strings.
        if is_list(value) || value.kind() == ValueKind::Map {
            charge_deep(value)?;
        } else {
            charge_shallow(value)?;
        }
    }
    match (operation, a.as_str(), b.as_str()) {
        ("a == b", Some(x), Some(y)) => Ok(Value::from(x == y)),
        ("a != b", Some(x), Some(y)) => Ok(Value::from(x != y)),
        _ => evaluate(state, operation, &[a, b]),
    }
}

fn names() -> &'static HashMap<(bool, &'static str), &'static str> {
    static NAMES: OnceLock<HashMap<(bool, &'static str), &'static str>> = OnceLock::new();
    NAMES.get_or_init(|| {
        let leak =
            |kind: &str, name: &str| -> &'static str { format!("grille.{kind}.{name}").leak() };
        let filters = DEEP_FILTERS
            .iter()
            .chain(SHALLOW_FILTERS)
            .map(|&n| ((false, n), leak("filter", n)));
        filters
            .chain(TESTS.iter().map(|&n| ((true, n), leak("test", n))))
            .collect()
    })
}

/// Filters of text: Jinja2 gives them `str(value)`, minijinja its own form of it.
const TEXT_FILTERS: &[&str] = &["capitalize", "lower", "title", "trim", "upper"];

fn apply(state: &State, name: &'static str, args: &[Value]) -> Result<Value, Error> {
    // map(attribute=…) only selects; map("upper") writes every item.
    let selects = name == "map" && args.get(1).and_then(Value::as_str).is_none();
    if DEEP_FILTERS.contains(&name) && !selects {
        args.iter().try_for_each(charge_deep)?;
    } else {
        args.iter().try_for_each(charge_shallow)?;
    }
    if name == "format" {
        methods::check_format(args.first().and_then(Value::as_str).unwrap_or_default())?;
    }
    match args.split_first() {
        Some((value, rest)) if TEXT_FILTERS.contains(&name) && value.as_str().is_none() => {
            let text = Value::from(python::str(value)?);
            state.apply_filter(name, &[&[text], rest].concat())
        }
        _ => materialized(state.apply_filter(name, args)?),
    }
}

/// Registers the functions that `rewrite` calls.
pub fn install(env: &mut Environment<'static>) {
    env.add_function("namespace", namespace);
    env.remove_global("debug");
    env.add_function(SET_ATTRIBUTE, set_attribute);
    env.add_function(ADD, add);
    env.add_function(MULTIPLY, multiply);
    env.add_function(REMAINDER, remainder);
    env.add_function(CONCATENATE, concatenate);
    env.add_function(SLICE, |state: &State, args: Rest<Value>| {
        charge_shallow(args.first().unwrap_or(&Value::UNDEFINED))?;
        materialized(evaluate(state, "a[b:c:d]", &args)?)
    });
    env.add_function(MADE, |value: Value| count_container(&value).map(|()| value));
    for name in ["chain", "zip"] {
        env.remove_filter(name); // lazy, and not Jinja2's
    }
    for (name, operation) in COMPARE {
        env.add_function(name, move |state: &State, a: Value, b: Value| {
            compare(state, operation, a, b)
        });
    }
    for (&(is_test, name), &function) in names() {
        if is_test {
            env.add_function(function, move |state: &State, args: Rest<Value>| {
                args.iter().try_for_each(charge_deep)?;
                state.perform_test(name, &args)
            });
        } else {
            env.add_function(function, move |state: &State, args: Rest<Value>| {
                apply(state, name, &args)
            });
        }
    }
}

/// Raw text that costs no more than the instruction itself is emitted as it is.
const FREE_RAW_BYTES: usize = 32;

fn guarded<'a>(instruction: &Instruction<'a>) -> Vec<Instruction<'a>> {
    use Instruction::*;
    let binary = |name| vec![CallFunction(name, Some(2))];
    match instruction {
        Add => binary(ADD),
        Mul => binary(MULTIPLY),
        Rem => binary(REMAINDER),
        StringConcat => binary(CONCATENATE),
        Eq => binary(COMPARE[0].0),
        Ne => binary(COMPARE[1].0),
        Lt => binary(COMPARE[2].0),
        Lte => binary(COMPARE[3].0),
        Gt => binary(COMPARE[4].0),
        Gte => binary(COMPARE[5].0),
        In => binary(COMPARE[6].0),
        Slice => vec![CallFunction(SLICE, Some(4))],
        SetAttr(name) => {
            vec![
                LoadConst(Value::from(*name)),
                CallFunction(SET_ATTRIBUTE, Some(3)),
                DiscardTop,
            ]
        }
        EmitRaw(text) if text.len() > FREE_RAW_BYTES => vec![LoadConst(Value::from(*text)), Emit],
        ApplyFilter(name, count, _) if names().contains_key(&(false, *name)) => {
            vec![CallFunction(names()[&(false, *name)], *count)]
        }
        PerformTest(name, count, _) if names().contains_key(&(true, *name)) => {
            vec![CallFunction(names()[&(true, *name)], *count)]
        }
        BuildList(_) | BuildMap(_) | BuildMacro(..) => {
            vec![instruction.clone(), CallFunction(MADE, Some(1))]
        }
        CallFunction("dict", count) => {
            vec![CallFunction("dict", *count), CallFunction(MADE, Some(1))]
        }
        other => vec![other.clone()],
    }
}

fn retarget(instruction: Instruction<'_>, target: impl Fn(u32) -> u32) -> Instruction<'_> {
    use Instruction::*;
    match instruction {
        Iterate(to) => Iterate(target(to)),
        Jump(to) => Jump(target(to)),
        JumpIfFalse(to) => JumpIfFalse(target(to)),
        JumpIfFalseOrPop(to) => JumpIfFalseOrPop(target(to)),
        JumpIfTrueOrPop(to) => JumpIfTrueOrPop(target(to)),
        BuildMacro(name, to, flags) => BuildMacro(name, target(to), flags),
        other => other,
    }
}

pub fn rewrite<'a>(code: &Instructions<'a>) -> Instructions<'a> {
    let expanded: Vec<Vec<Instruction<'a>>> = (0..code.len() as u32)
        .filter_map(|i| code.get(i))
        .map(guarded)
        .collect();
    let mut position = vec![0u32];
    for instructions in &expanded {
        position.push(position[position.len() - 1] + instructions.len() as u32);
    }
    let target = |to: u32| position.get(to as usize).copied().unwrap_or(to);
    let mut out = Instructions::new(code.name(), code.source());
    for (i, instructions) in expanded.into_iter().enumerate() {
        for instruction in instructions {
            let instruction = retarget(instruction, target);
            match code.get_span(i as u32) {
                Some(span) => out.add_with_span(instruction, span),
                None => out.add_with_line(instruction, code.get_line(i as u32).unwrap_or(0) as u16),
            };
        }
    }
    out
}
