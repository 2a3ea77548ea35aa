//! What elastic jobs have in etcd, written through its JSON gateway: a client of its own
//! protocol would need another compiler, for two calls.

use std::time::Duration;

use http::{Request, Uri};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Pod, PodStatus, Service};
use kube::api::ListParams;
use kube::{Api, Client, Config};
use plan::paddlejob::EtcdWrite;
use serde_json::{Value, json};

/// How long a server may take: there may be others.
const PATIENCE: Duration = Duration::from_secs(2);

/// The etcd servers of elastic jobs.
#[derive(Clone, Debug, Default)]
pub struct Etcd {
    /// As `host:port`.
    pub servers: Vec<String>,
    /// Names of Services are looked up in the API: on one machine nobody else knows them.
    pub asks_api: bool,
}

impl Etcd {
    /// Writes or removes keys.
    ///
    /// # Errors
    /// With a sentence, when no server did it.
    pub(crate) async fn write(&self, client: &Client, write: &EtcdWrite) -> Result<(), String> {
        for (path, body) in requests(write) {
            self.ask(client, path, &body).await?;
        }
        Ok(())
    }

    /// The value of a key, if it is there.
    ///
    /// # Errors
    /// With a sentence, when no server answered.
    pub(crate) async fn get(&self, client: &Client, key: &str) -> Result<Option<String>, String> {
        let body = json!({"key": base64(key.as_bytes())});
        let answer = self.ask(client, "/v3/kv/range", &body).await?;
        let value = answer.pointer("/kvs/0/value").cloned();
        let value = value.map(serde_json::from_value::<ByteString>).transpose();
        let value = value.map_err(|error| error.to_string())?;
        Ok(value.map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned()))
    }

    /// Asks one server after the other: any will do.
    async fn ask(&self, client: &Client, path: &str, body: &Value) -> Result<Value, String> {
        if self.servers.is_empty() {
            return Err(
                "no etcd is known: start the manager with --etcd-server=HOST:2379".to_owned(),
            );
        }
        let mut faults = Vec::new();
        for server in &self.servers {
            let asked = self.ask_one(client, server, path, body);
            let answer = tokio::time::timeout(PATIENCE, asked).await;
            match answer.unwrap_or_else(|_| Err("no answer in time".to_owned())) {
                Ok(answer) => return Ok(answer),
                Err(fault) => faults.push(format!("etcd server {server}: {fault}")),
            }
        }
        Err(faults.join("; "))
    }

    async fn ask_one(
        &self,
        client: &Client,
        server: &str,
        path: &str,
        body: &Value,
    ) -> Result<Value, String> {
        let address = match self.asks_api {
            true => address(client, server).await?,
            false => server.to_owned(),
        };
        let uri = Uri::try_from(format!("http://{address}"));
        let uri = uri.map_err(|error| error.to_string())?;
        let say = |error: kube::Error| error.to_string();
        let etcd = Client::try_from(Config::new(uri)).map_err(say)?;
        let request = Request::post(path).body(body.to_string().into_bytes());
        let request = request.map_err(|error| error.to_string())?;
        etcd.request(request).await.map_err(say)
    }
}

/// The calls that do it.
fn requests(write: &EtcdWrite) -> Vec<(&'static str, Value)> {
    match write {
        EtcdWrite::Workers {
            count,
            key,
            mark,
            begins,
        } => {
            let put = |key: &str| {
                let value = base64(count.to_string().as_bytes());
                json!({"key": base64(key.as_bytes()), "value": value})
            };
            let marked = match begins {
                true => ("/v3/kv/put", put(mark)),
                false => {
                    let is_there = json!({"key": base64(mark.as_bytes()), "target": "CREATE", "result": "GREATER", "create_revision": "0"});
                    let then = json!({"request_put": put(mark)});
                    let body = json!({"compare": [is_there], "success": [then]});
                    ("/v3/kv/txn", body)
                }
            };
            vec![("/v3/kv/put", put(key)), marked]
        }
        EtcdWrite::Remove { prefixes } => {
            let remove = |prefix: &String| {
                // All that begins with the prefix lies before the prefix whose last byte is
                // one larger.
                let mut end = prefix.clone().into_bytes();
                if let Some(last) = end.last_mut() {
                    *last = last.saturating_add(1);
                }
                let body = json!({"key": base64(prefix.as_bytes()), "range_end": base64(&end)});
                ("/v3/kv/deleterange", body)
            };
            prefixes.iter().map(remove).collect()
        }
    }
}

fn base64(bytes: &[u8]) -> Value {
    json!(ByteString(bytes.to_vec()))
}

/// Where the pod is that stands behind the name of a Service; what is no such name stays
/// as it is.
async fn address(client: &Client, server: &str) -> Result<String, String> {
    let (host, port) = server.rsplit_once(':').unwrap_or((server, "2379"));
    let mut parts = host.split('.');
    let named = (parts.next(), parts.next(), parts.next());
    let (Some(name), Some(namespace), rest @ (None | Some("svc"))) = named else {
        return Ok(server.to_owned());
    };
    let say = |error: kube::Error| error.to_string();
    let services = Api::<Service>::namespaced(client.clone(), namespace);
    let service = match (services.get_opt(name).await.map_err(say)?, rest) {
        (Some(service), _) => service,
        // A server somewhere else may have a name of two parts, too.
        (None, None) => return Ok(server.to_owned()),
        (None, Some(_)) => {
            return Err(format!(
                "there is no Service {namespace}/{name}: kubectl apply -f deploy/elastic/etcd.yaml"
            ));
        }
    };
    let selector = service.spec.and_then(|spec| spec.selector);
    let selector = selector.into_iter().flatten();
    let selector: Vec<String> = selector
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let behind = ListParams::default().labels(&selector.join(","));
    let pods = Api::<Pod>::namespaced(client.clone(), namespace);
    let pods = pods.list(&behind).await.map_err(say)?;
    let ready = pods.items.into_iter().filter_map(|pod| pod.status);
    let mut ready = ready.filter(is_ready);
    match ready.find_map(|status| status.pod_ip) {
        Some(ip) => Ok(format!("{ip}:{port}")),
        None => Err(format!(
            "no pod behind Service {namespace}/{name} is ready yet"
        )),
    }
}

/// Whether the name of its Service leads to a pod: workers that start before it does fail.
fn is_ready(status: &PodStatus) -> bool {
    let mut conditions = status.conditions.iter().flatten();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A launcher that has wiped the mark away must not find it made anew.
    #[test]
    fn the_mark_is_made_once_and_then_only_kept() {
        let workers = |begins| EtcdWrite::Workers {
            count: 2,
            key: "/k".to_owned(),
            mark: "/m".to_owned(),
            begins,
        };
        let mark = json!({"key": "L20=", "value": "Mg=="});
        let told = ("/v3/kv/put", json!({"key": "L2s=", "value": "Mg=="}));
        let made = ("/v3/kv/put", mark.clone());
        assert_eq!(requests(&workers(true)), [told.clone(), made]);
        let kept = json!({
            "compare": [{"key": "L20=", "target": "CREATE", "result": "GREATER", "create_revision": "0"}],
            "success": [{"request_put": mark}],
        });
        assert_eq!(requests(&workers(false)), [told, ("/v3/kv/txn", kept)]);
    }

    #[test]
    fn keys_go_by_prefix() {
        let prefixes = vec!["/paddle/0a1b2c3d-default-a/".to_owned()];
        let calls = requests(&EtcdWrite::Remove { prefixes });
        let [(path, body)] = calls.as_slice() else {
            unreachable!("one prefix, one call");
        };
        assert_eq!(*path, "/v3/kv/deleterange");
        // The same with 0, the next character, at its end.
        assert_eq!(body["key"], "L3BhZGRsZS8wYTFiMmMzZC1kZWZhdWx0LWEv");
        assert_eq!(body["range_end"], "L3BhZGRsZS8wYTFiMmMzZC1kZWZhdWx0LWEw");
    }
}
