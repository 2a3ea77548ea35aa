//! What happens to an object between a request and the store: what its kind does
//! not have goes, what is missing is filled in, and what can't be is refused.

use jiff::Timestamp;
use serde_json::Value;

use crate::api::Unknown;
use crate::object::{self, Part, meta};
use crate::served::Served;
use crate::status::Status;
use crate::store::Change;
use crate::{decode, defaults, validate};

/// A new object.
pub(crate) fn created(served: &Served, body: Value, unknown: Unknown) -> Result<Value, Status> {
    let (uid, suffix) = (uuid::Uuid::new_v4().to_string(), suffix());
    let made = object::create(&served.kind, body, &uid, &suffix, Timestamp::now())?;
    let made = prepared(served, made, unknown)?;
    checked(served, made, None, Part::Main)
}

/// Prunes an object and fills in what is missing.
pub(crate) fn prepared(
    served: &Served,
    mut object: Value,
    unknown: Unknown,
) -> Result<Value, Status> {
    let kind = &served.kind;
    let dropped = match &served.schema {
        Some(schema) => schema.prune(&mut object),
        None => decode::prune(kind, &mut object).map_err(|why| Status::undecodable(kind, &why))?,
    };
    if unknown == Unknown::Refused && !dropped.is_empty() {
        let dropped = dropped
            .iter()
            .map(|field| format!("unknown field \"{field}\""));
        let dropped = dropped.collect::<Vec<_>>().join(", ");
        let why = format!("strict decoding error: {dropped}");
        return Err(Status::undecodable(kind, &why));
    }
    match &served.schema {
        Some(schema) => schema.set_defaults(&mut object),
        None => defaults::fill(kind, &mut object),
    }
    Ok(object)
}

/// An object that may be as it is, or was changed.
fn checked(
    served: &Served,
    mut object: Value,
    old: Option<&Value>,
    part: Part,
) -> Result<Value, Status> {
    let kind = &served.kind;
    if served.schema.is_none() {
        // What depends on more than the part that was written.
        defaults::fill(kind, &mut object);
    }
    let mut faults = match old {
        Some(old) => validate::metadata(&object, old),
        None => validate::new_metadata(kind, &object),
    };
    faults.extend(match &served.schema {
        Some(schema) => schema.faults(&object, old),
        None => validate::built_in(kind, &object, old, part),
    });
    match faults.as_slice() {
        [] => Ok(object),
        faults => Err(Status::invalid(kind, meta(&object, "name"), faults)),
    }
}

/// What becomes of an object that somebody writes anew.
pub(crate) fn rewritten(
    served: &Served,
    old: &Value,
    new: Value,
    part: Part,
) -> Result<Change, Status> {
    match object::update(&served.kind, old, new, part)? {
        Change::Put(new) => checked(served, new, Some(old), part).map(Change::Put),
        change => Ok(change),
    }
}

/// Five letters and digits that make no words, as Kubernetes has them.
fn suffix() -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let random = uuid::Uuid::new_v4().into_bytes();
    let letter = |byte: &u8| LETTERS.get(usize::from(*byte) % LETTERS.len()).copied();
    let letters = random.iter().filter_map(letter).take(5);
    letters.map(char::from).collect()
}
