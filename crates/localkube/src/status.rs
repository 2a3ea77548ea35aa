//! What went wrong with a request, in the form and the words of Kubernetes.

use serde_json::{Value, json};

use crate::fault::Fault;
use crate::kind::Kind;
use crate::object::meta;
use crate::store;

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Status {
    /// The HTTP status.
    pub code: u16,
    /// The reason, one word.
    pub reason: &'static str,
    /// The message.
    pub message: String,
    /// What programs can read.
    pub details: Option<Value>,
}

impl Status {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Status {
        Status {
            code,
            reason,
            message: message.into(),
            details: None,
        }
    }

    fn about(self, kind: &Kind, name: &str) -> Status {
        Status {
            details: Some(details(kind, name, &kind.plural)),
            ..self
        }
    }

    /// The object is not there.
    pub fn not_found(kind: &Kind, name: &str) -> Status {
        let message = format!("{} \"{name}\" not found", kind.resource());
        Status::new(404, "NotFound", message).about(kind, name)
    }

    /// There is nothing at this path.
    pub fn no_such_path() -> Status {
        let message = "the server could not find the requested resource";
        Status::new(404, "NotFound", message)
    }

    /// An object of this name is there already.
    pub fn already_exists(kind: &Kind, old: &Value) -> Status {
        let name = meta(old, "name");
        let going = match meta(old, "deletionTimestamp").is_empty() {
            true => "",
            false => "object is being deleted: ",
        };
        let message = format!("{going}{} \"{name}\" already exists", kind.resource());
        Status::new(409, "AlreadyExists", message).about(kind, name)
    }

    /// Somebody else wrote meanwhile.
    pub fn modified(kind: &Kind, name: &str) -> Status {
        let why = "the object has been modified; please apply your changes to the latest version \
                   and try again";
        Status::conflict(kind, name, why)
    }

    /// The object is not the one that was meant.
    pub fn conflict(kind: &Kind, name: &str, why: &str) -> Status {
        Status::conflict_of(&kind.resource(), kind, name, why)
    }

    /// A part of the object is not as it was meant.
    pub(crate) fn conflict_of(what: &str, kind: &Kind, name: &str, why: &str) -> Status {
        let message = format!("Operation cannot be fulfilled on {what} \"{name}\": {why}");
        Status::new(409, "Conflict", message).about(kind, name)
    }

    /// The object can't be as it is.
    pub fn invalid(kind: &Kind, name: &str, faults: &[Fault]) -> Status {
        let told: Vec<String> = faults.iter().map(Fault::to_string).collect();
        let told = match told.as_slice() {
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        let message = format!("{} \"{name}\" is invalid: {told}", kind.qualified_kind());
        let causes: Vec<Value> = faults
            .iter()
            .map(|fault| {
                json!({"reason": fault.reason, "message": fault.message, "field": fault.field})
            })
            .collect();
        let mut details = details(kind, name, &kind.kind);
        json_patch::merge(&mut details, &json!({"causes": causes}));
        Status {
            details: Some(details),
            ..Status::new(422, "Invalid", message)
        }
    }

    /// The options of a request can't be as they are.
    pub(crate) fn invalid_options(options: &str, name: &str, faults: &[Fault]) -> Status {
        let kind = Kind {
            kind: options.to_owned(),
            ..Kind::default()
        };
        Status::invalid(&kind, name, faults)
    }

    /// What would have to answer is not there.
    pub(crate) fn unavailable(message: &str) -> Status {
        Status::new(503, "ServiceUnavailable", message)
    }

    /// What a machine that runs pods says of a request.
    pub(crate) fn of_kubelet(code: u16, message: String) -> Status {
        match code {
            404 => Status::new(404, "NotFound", message),
            500 => Status::internal(message),
            503 => Status::new(503, "ServiceUnavailable", message),
            code => Status::new(code, "Unknown", message),
        }
    }

    /// The request can't be understood.
    pub fn bad_request(message: impl Into<String>) -> Status {
        Status::new(400, "BadRequest", message)
    }

    /// As the real one, who tells a request that can't be read from a patch that
    /// makes something that can't be.
    pub(crate) fn of_patch(self) -> Status {
        match self.reason {
            "BadRequest" => Status::new(422, "Invalid", self.message),
            _ => self,
        }
    }

    /// An object that is none of its kind.
    pub(crate) fn undecodable(kind: &Kind, why: &str) -> Status {
        let (version, kind) = (&kind.version, &kind.kind);
        Status::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {kind}: {why}"
        ))
    }

    /// The request is understood and not allowed.
    pub fn forbidden(kind: &Kind, name: &str, why: &str) -> Status {
        let message = format!("{} \"{name}\" is forbidden: {why}", kind.resource());
        Status::new(403, "Forbidden", message).about(kind, name)
    }

    /// The request came by a name that is not ours.
    pub(crate) fn foreign_host(host: &str) -> Status {
        let message = format!("forbidden: host {host:?} is not a name of this server");
        Status::new(403, "Forbidden", message)
    }

    /// Nothing is made any more in a namespace that ends.
    pub(crate) fn namespace_ends(kind: &Kind, name: &str, namespace: &str) -> Status {
        let why = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        let mut status = Status::forbidden(kind, name, &why);
        let cause = json!({"causes": [{
            "reason": "NamespaceTerminating",
            "message": format!("namespace {namespace} is being terminated"),
            "field": "metadata.namespace",
        }]});
        if let Some(details) = &mut status.details {
            json_patch::merge(details, &cause);
        }
        status
    }

    /// An object is written anew without the version that was seen.
    pub(crate) fn no_version(kind: &Kind, name: &str) -> Status {
        let fault = Fault {
            field: "metadata.resourceVersion".to_owned(),
            reason: "FieldValueInvalid",
            message: "Invalid value: 0: must be specified for an update".to_owned(),
        };
        // In the words of the real one, who has the resource here in place of the kind.
        let kind = Kind {
            kind: kind.plural.clone(),
            ..kind.clone()
        };
        Status::invalid(&kind, name, &[fault])
    }

    /// Nobody knows who asks.
    pub fn unauthorized() -> Status {
        Status::new(401, "Unauthorized", "Unauthorized")
    }

    /// This can't be done with such an object.
    pub fn method_not_allowed() -> Status {
        let message = "the server does not allow this method on the requested resource";
        Status::new(405, "MethodNotAllowed", message)
    }

    /// An apply that does not say who applies.
    pub(crate) fn no_field_manager() -> Status {
        let kind = Kind {
            group: "meta.k8s.io".to_owned(),
            kind: "PatchOptions".to_owned(),
            ..Kind::default()
        };
        let fault = Fault {
            field: "fieldManager".to_owned(),
            reason: "FieldValueRequired",
            message: "Required value: is required for apply patch".to_owned(),
        };
        Status::invalid(&kind, "", &[fault])
    }

    /// A body of another kind than those that are understood.
    pub(crate) fn unsupported_media(supported: &[&str]) -> Status {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            supported.join(", ")
        );
        Status::new(415, "UnsupportedMediaType", message)
    }

    /// The history does not reach back so far.
    pub fn expired(message: impl Into<String>) -> Status {
        Status::new(410, "Expired", message)
    }

    /// There is too much of it.
    pub(crate) fn too_large(most: usize) -> Status {
        let message = format!("Request entity too large: limit is {most}");
        Status::new(413, "RequestEntityTooLarge", message)
    }

    /// The request did not come to its end.
    pub(crate) fn too_slow() -> Status {
        Status::new(408, "Timeout", "the body of the request took too long")
    }

    /// Something is broken here.
    pub fn internal(message: impl Into<String>) -> Status {
        let message = format!("Internal error occurred: {}", message.into());
        Status::new(500, "InternalError", message)
    }

    /// As it is sent.
    pub fn to_json(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        });
        if let (Some(details), Some(status)) = (&self.details, status.as_object_mut()) {
            status.insert("details".to_owned(), details.clone());
        }
        status
    }
}

/// Whom a status is about.
fn details(kind: &Kind, name: &str, called: &str) -> Value {
    match kind.group.as_str() {
        "" => json!({"name": name, "kind": called}),
        group => json!({"name": name, "group": group, "kind": called}),
    }
}

impl From<store::Error> for Status {
    fn from(error: store::Error) -> Status {
        match error {
            store::Error::Gone { .. } => Status::expired(error.to_string()),
            store::Error::Disk { .. } => Status::internal(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn widget() -> Kind {
        Kind {
            group: "example.com".to_owned(),
            version: "v1".to_owned(),
            kind: "Widget".to_owned(),
            plural: "widgets".to_owned(),
            ..Kind::default()
        }
    }

    #[test]
    fn messages_are_those_of_kubernetes() {
        let kind = widget();
        assert_eq!(
            Status::not_found(&kind, "x").message,
            "widgets.example.com \"x\" not found"
        );
        let fault = |field: &str| Fault {
            field: field.to_owned(),
            reason: "FieldValueRequired",
            message: "Required value".to_owned(),
        };
        assert_eq!(
            Status::invalid(&kind, "x", &[fault("spec")]).message,
            "Widget.example.com \"x\" is invalid: spec: Required value"
        );
        let two = Status::invalid(&kind, "x", &[fault("a"), fault("b")]).to_json();
        assert_eq!(
            two.pointer("/message").and_then(Value::as_str),
            Some("Widget.example.com \"x\" is invalid: [a: Required value, b: Required value]")
        );
        assert_eq!(two.pointer("/details/kind"), Some(&json!("Widget")));
        assert_eq!(two.pointer("/details/causes/1/field"), Some(&json!("b")));
    }
}
