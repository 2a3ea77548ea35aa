//! The objects that the tests read.

use std::sync::LazyLock;

use kube::Resource;
use serde_json::Value;

macro_rules! fixtures {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../fixtures/", $name, ".yaml")))),*]
    };
}

/// Every object of ours that the published tutorials show.
pub const TUTORIALS: &[(&str, &str)] = fixtures![
    "imagenet",
    "imagenet-clear",
    "imagenet-rmr",
    "imagenet-sync",
    "imagenet-warmup",
    "ps-demo",
    "resnet",
    "wide-and-deep",
];

/// An object of each kind that has every field.
pub const EVERY_FIELD: &[(&str, &str)] = fixtures![
    "every-field-paddlejob",
    "every-field-samplejob",
    "every-field-sampleset",
];

pub fn all() -> impl Iterator<Item = (&'static str, Value)> {
    TUTORIALS
        .iter()
        .chain(EVERY_FIELD)
        .map(|(name, yaml)| (*name, parse(yaml)))
}

pub fn parse(yaml: &str) -> Value {
    serde_saphyr::from_str(yaml).unwrap()
}

/// The schema of an object's kind, as the API server gets it.
pub fn schema_for(object: &Value) -> Value {
    // Deriving a schema takes a while without optimisation.
    static CRDS: LazyLock<Value> = LazyLock::new(|| serde_json::to_value(api::crds()).unwrap());
    let crds = CRDS.as_array().unwrap();
    let crd = crds
        .iter()
        .find(|crd| crd["spec"]["names"]["kind"] == object["kind"])
        .unwrap();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// The object after it went through the type of its kind.
pub fn through_the_type(object: &Value) -> Value {
    fn through<T>(object: &Value) -> Value
    where
        T: Resource<DynamicType = ()> + serde::de::DeserializeOwned + serde::Serialize,
    {
        assert_eq!(object["apiVersion"], *T::api_version(&()));
        serde_json::to_value(serde_json::from_value::<T>(object.clone()).unwrap()).unwrap()
    }
    match object["kind"].as_str().unwrap() {
        "PaddleJob" => through::<api::PaddleJob>(object),
        "SampleJob" => through::<api::SampleJob>(object),
        _ => through::<api::SampleSet>(object),
    }
}
