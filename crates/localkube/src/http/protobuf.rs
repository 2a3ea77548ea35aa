//! The bodies that `kubectl create` sends: some commands know no JSON.
//!
//! Only what these commands make is understood, and only with the fields listed
//! here; anything else is refused rather than taken in part. Answers are JSON,
//! which every client takes too.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

/// What such a body is said to be.
pub(super) const TYPE: &str = "application/vnd.kubernetes.protobuf";
const MAGIC: &[u8] = b"k8s\0";

/// How a field is sent.
#[derive(Clone, Copy)]
enum Shape {
    Text,
    Bytes,
    Flag,
    /// A flag that is not set when it is false.
    Mark,
    /// A number that may be 0.
    Number,
    /// A number that is not set when it is 0.
    Count,
    IntOrString,
    Message(&'static [Field]),
    /// Texts by name.
    Texts,
    /// Bytes by name.
    Blobs,
    /// Only the server sets it.
    Ignored,
}

struct Field {
    number: u64,
    name: &'static str,
    shape: Shape,
    is_list: bool,
}

const fn one(number: u64, name: &'static str, shape: Shape) -> Field {
    Field {
        number,
        name,
        shape,
        is_list: false,
    }
}

const fn list(number: u64, name: &'static str, shape: Shape) -> Field {
    Field {
        number,
        name,
        shape,
        is_list: true,
    }
}

const META: Field = one(1, "metadata", Shape::Message(&OBJECT_META));
const OBJECT_META: [Field; 13] = [
    one(1, "name", Shape::Text),
    one(2, "generateName", Shape::Text),
    one(3, "namespace", Shape::Text),
    one(4, "selfLink", Shape::Ignored),
    one(5, "uid", Shape::Text),
    one(6, "resourceVersion", Shape::Text),
    one(7, "generation", Shape::Ignored),
    one(8, "creationTimestamp", Shape::Ignored),
    one(11, "labels", Shape::Texts),
    one(12, "annotations", Shape::Texts),
    list(13, "ownerReferences", Shape::Message(&OWNER)),
    list(14, "finalizers", Shape::Text),
    list(17, "managedFields", Shape::Ignored),
];
const OWNER: [Field; 6] = [
    one(1, "kind", Shape::Text),
    one(3, "name", Shape::Text),
    one(4, "uid", Shape::Text),
    one(5, "apiVersion", Shape::Text),
    one(6, "controller", Shape::Flag),
    one(7, "blockOwnerDeletion", Shape::Flag),
];
const NAMESPACE: [Field; 3] = [
    META,
    one(2, "spec", Shape::Ignored),
    one(3, "status", Shape::Ignored),
];
const CONFIG_MAP: [Field; 4] = [
    META,
    one(2, "data", Shape::Texts),
    one(3, "binaryData", Shape::Blobs),
    one(4, "immutable", Shape::Flag),
];
const SECRET: [Field; 5] = [
    META,
    one(2, "data", Shape::Blobs),
    one(3, "type", Shape::Text),
    one(4, "stringData", Shape::Texts),
    one(5, "immutable", Shape::Flag),
];
const SERVICE_ACCOUNT: [Field; 2] = [META, one(4, "automountServiceAccountToken", Shape::Flag)];
const SERVICE: [Field; 3] = [
    META,
    one(2, "spec", Shape::Message(&SERVICE_SPEC)),
    one(3, "status", Shape::Ignored),
];
const SERVICE_SPEC: [Field; 13] = [
    list(1, "ports", Shape::Message(&SERVICE_PORT)),
    one(2, "selector", Shape::Texts),
    one(3, "clusterIP", Shape::Text),
    one(4, "type", Shape::Text),
    list(5, "externalIPs", Shape::Text),
    one(7, "sessionAffinity", Shape::Text),
    one(8, "loadBalancerIP", Shape::Text),
    one(10, "externalName", Shape::Text),
    one(11, "externalTrafficPolicy", Shape::Text),
    one(12, "healthCheckNodePort", Shape::Count),
    one(13, "publishNotReadyAddresses", Shape::Mark),
    one(17, "ipFamilyPolicy", Shape::Text),
    list(18, "clusterIPs", Shape::Text),
];
const SERVICE_PORT: [Field; 6] = [
    one(1, "name", Shape::Text),
    one(2, "protocol", Shape::Text),
    one(3, "port", Shape::Number),
    one(4, "targetPort", Shape::IntOrString),
    one(5, "nodePort", Shape::Count),
    one(6, "appProtocol", Shape::Text),
];
const EVICTION: [Field; 2] = [META, one(2, "deleteOptions", Shape::Message(&DELETION))];
const DELETION: [Field; 5] = [
    one(1, "gracePeriodSeconds", Shape::Number),
    one(2, "preconditions", Shape::Message(&PRECONDITIONS)),
    one(3, "orphanDependents", Shape::Flag),
    one(4, "propagationPolicy", Shape::Text),
    list(5, "dryRun", Shape::Text),
];
const PRECONDITIONS: [Field; 2] = [
    one(1, "uid", Shape::Text),
    one(2, "resourceVersion", Shape::Text),
];
const ENVELOPE: [Field; 4] = [
    one(1, "type", Shape::Message(&TYPE_META)),
    one(2, "raw", Shape::Bytes),
    one(3, "contentEncoding", Shape::Ignored),
    one(4, "contentType", Shape::Ignored),
];
const TYPE_META: [Field; 2] = [
    one(1, "apiVersion", Shape::Text),
    one(2, "kind", Shape::Text),
];

/// The object in a body; `None` when it is none that we understand.
pub(super) fn read(body: &[u8]) -> Option<Value> {
    let envelope = message(body.strip_prefix(MAGIC)?, &ENVELOPE)?;
    let text = |path: &str| envelope.pointer(path).and_then(Value::as_str);
    let kind = text("/type/kind")?;
    let fields: &[Field] = match kind {
        "Namespace" => &NAMESPACE,
        "ConfigMap" => &CONFIG_MAP,
        "Secret" => &SECRET,
        "ServiceAccount" => &SERVICE_ACCOUNT,
        "Service" => &SERVICE,
        "Eviction" => &EVICTION,
        "DeleteOptions" => &DELETION,
        _ => return None,
    };
    let raw = BASE64_STANDARD.decode(text("/raw")?).ok()?;
    let mut object = message(&raw, fields)?;
    json_patch::merge(
        &mut object,
        &json!({"kind": kind, "apiVersion": text("/type/apiVersion")?}),
    );
    Some(object)
}

fn message(mut bytes: &[u8], fields: &[Field]) -> Option<Value> {
    let mut object = Map::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        let found = payload(&mut bytes, tag & 7)?;
        let field = fields.iter().find(|field| field.number == tag >> 3)?;
        match (field.shape, &found) {
            (Shape::Ignored, _) => {}
            (Shape::Texts | Shape::Blobs, Payload::Bytes(entry)) => {
                let values = object.entry(field.name).or_insert_with(|| json!({}));
                let (key, value) = self::entry(entry, matches!(field.shape, Shape::Blobs))?;
                values.as_object_mut()?.insert(key, value);
            }
            (shape, found) => {
                let Some(value) = value(shape, found)? else {
                    continue;
                };
                if field.is_list {
                    let list = object.entry(field.name).or_insert_with(|| json!([]));
                    list.as_array_mut()?.push(value);
                } else {
                    object.insert(field.name.to_owned(), value);
                }
            }
        }
    }
    Some(object.into())
}

/// What a field holds; `Some(None)` when that is nothing.
fn value(shape: Shape, found: &Payload<'_>) -> Option<Option<Value>> {
    Some(match (shape, found) {
        (Shape::Text, Payload::Bytes(bytes)) => {
            let text = std::str::from_utf8(bytes).ok()?;
            (!text.is_empty()).then(|| text.into())
        }
        (Shape::Bytes, Payload::Bytes(bytes)) => Some(BASE64_STANDARD.encode(bytes).into()),
        (Shape::Flag, Payload::Number(number)) => Some((*number != 0).into()),
        (Shape::Mark, Payload::Number(number)) => (*number != 0).then_some(true.into()),
        // Negative numbers are sent as their two's complement.
        (Shape::Number, Payload::Number(number)) => Some(number.cast_signed().into()),
        (Shape::Count, Payload::Number(number)) => {
            (*number != 0).then(|| number.cast_signed().into())
        }
        (Shape::IntOrString, Payload::Bytes(bytes)) => {
            let fields = [
                one(1, "type", Shape::Count),
                one(2, "number", Shape::Count),
                one(3, "text", Shape::Text),
            ];
            let either = message(bytes, &fields)?;
            either.get("text").or(either.get("number")).cloned()
        }
        (Shape::Message(fields), Payload::Bytes(bytes)) => {
            let inner = message(bytes, fields)?;
            (inner != json!({})).then_some(inner)
        }
        _ => return None,
    })
}

/// An entry of a map.
fn entry(bytes: &[u8], is_blob: bool) -> Option<(String, Value)> {
    let shape = if is_blob { Shape::Bytes } else { Shape::Text };
    let entry = message(bytes, &[one(1, "key", Shape::Text), one(2, "value", shape)])?;
    let key = entry.get("key").and_then(Value::as_str).unwrap_or_default();
    let value = entry.get("value").cloned().unwrap_or_else(|| "".into());
    Some((key.to_owned(), value))
}

enum Payload<'b> {
    Number(u64),
    Bytes(&'b [u8]),
}

fn payload<'b>(bytes: &mut &'b [u8], wire: u64) -> Option<Payload<'b>> {
    match wire {
        0 => varint(bytes).map(Payload::Number),
        2 => {
            let length = usize::try_from(varint(bytes)?).ok()?;
            let (found, rest) = bytes.split_at_checked(length)?;
            *bytes = rest;
            Some(Payload::Bytes(found))
        }
        _ => None,
    }
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `kubectl create configmap a --from-literal=k=v` sends.
    const SENT: &[u8] =
        b"k8s\0\n\x0f\n\x02v1\x12\x09ConfigMap\x12\x22\n\x18\n\x01a\x12\0\x1a\x07default\
        \x22\0*\x002\x008\0B\0\x12\x06\n\x01k\x12\x01v\x1a\0\x22\0";

    #[test]
    fn a_config_map() {
        assert_eq!(
            read(SENT),
            Some(json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "a", "namespace": "default"}, "data": {"k": "v"},
            }))
        );
    }

    #[test]
    fn what_is_cut_short_or_unknown_is_refused() {
        for end in 0..SENT.len() - 4 {
            let cut = read(SENT.get(..end).unwrap_or_default());
            assert!(cut.is_none_or(|cut| cut.get("data").is_none()), "{end}");
        }
        assert_eq!(read(b"k8s\0\n\x09\n\x02v1\x12\x03Pod\x12\0"), None);
        assert_eq!(read(b"{}"), None);
    }
}
