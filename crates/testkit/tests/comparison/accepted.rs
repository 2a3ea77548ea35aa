//! What may differ, and why. Users read the same, by the same names, in
//! `docs/en/localkube.md` and `docs/zh_CN/localkube.md`.

/// Differences that we live with.
#[derive(Debug)]
#[cfg_attr(
    not(feature = "comparison"),
    expect(dead_code, reason = "without the real one, only the list is read")
)]
pub struct Accepted {
    /// Its name in the documentation.
    pub about: &'static str,
    /// The names of the requests; `*` at the end stands for any rest.
    pub requests: &'static [&'static str],
    /// Where in the answers: `*` stands for any one step, `**` at the end for any rest.
    /// `/code` alone means that one refuses what the other takes, or in another way.
    pub places: &'static [&'static str],
}

pub const ALL: &[Accepted] = &[
    Accepted {
        about: "version",
        requests: &["version"],
        places: &["/body/*"],
    },
    Accepted {
        about: "version",
        requests: &["versions of the core"],
        places: &["/body/serverAddressByClientCIDRs"],
    },
    Accepted {
        about: "kinds",
        requests: &["kinds of the core", "kinds of apps", "kinds of storage"],
        places: &["/body/resources/*"],
    },
    // The real one forgets it there, and only there.
    Accepted {
        about: "kinds",
        requests: &["kinds of the core"],
        places: &["/body/apiVersion"],
    },
    Accepted {
        about: "kinds",
        requests: &["groups"],
        places: &["/body/groups/*"],
    },
    Accepted {
        about: "kinds",
        requests: &[
            "who may do what",
            "a token for an account",
            "containers of a pod for debugging",
            "the size of a pod",
        ],
        places: &["/code"],
    },
    Accepted {
        about: "words",
        requests: &[
            "no such group",
            "no such path",
            "its path goes",
            "a field of another type",
            "another kind",
            "another version",
            "two controllers",
            "no JSON",
            "no object",
            "no body",
            "an unknown content type",
            "write with another uid",
            "merge what is no object",
            "merge a field of another type",
            "merge an unknown field, strictly",
            "JSON patch whose test fails",
            "JSON patch of what is not there",
            "JSON patch of nothing known",
            "a patch of an unknown type",
            "list with a bad selector",
            "list with a bad label",
            "list with a bad field selector",
            "list of a version that is none",
            "a page that was never promised",
            "a limit that is none",
            "watch for no time",
            "the command of a pod does not change",
            "the node of a pod is not patched",
            "a pod is bound once",
            "a claim does not change",
            "a new event without what it needs",
            "define a kind that is not stored",
            "custom: no number",
            "custom: no whole number",
            "custom: no object",
            "custom: a wrong status",
            "custom: scale below nothing",
            "job: with another type",
            "delete another uid",
            "delete an older version",
            "delete with options that are none",
        ],
        places: &[
            "/body",
            "/body/message",
            "/body/details",
            "/body/details/**",
            "/body/*/message",
        ],
    },
    // Refused by both, with another code.
    Accepted {
        about: "words",
        requests: &[
            "make with a version",
            "write with no version's name",
            "merge another kind",
            "JSON patch that is none",
            "strategic with what it can't do",
            "watch from a version that is none",
            "a pod is bound to a node",
        ],
        places: &["/code"],
    },
    Accepted {
        about: "warnings",
        requests: &[
            "unknown fields, with a warning",
            "a pod with an unknown field",
            "custom: make",
            "custom: with a warning",
            "custom: the status",
        ],
        places: &["/warnings"],
    },
    Accepted {
        about: "apply",
        requests: &["apply somebody else's field"],
        places: &["/code"],
    },
    Accepted {
        about: "apply",
        requests: &[
            "apply again without a field",
            "apply by force",
            "what was applied",
        ],
        places: &["/body/data/b"],
    },
    Accepted {
        about: "admission",
        requests: &[
            "a pod with a priority class that is not there",
            "a pod of an account that is not there",
        ],
        places: &["/code"],
    },
    Accepted {
        about: "admission",
        requests: &["a volume", "a claim", "table: volumes", "table: claims"],
        places: &[
            "/body/metadata/finalizers",
            "/body/rows/*/object/metadata/finalizers",
        ],
    },
    Accepted {
        about: "admission",
        requests: &["a volume"],
        places: &["/body/status/*"],
    },
    Accepted {
        about: "service-addresses",
        requests: &["a service", "a headless service", "a port of a service"],
        places: &[
            "/body/spec/clusterIP",
            "/body/spec/clusterIPs",
            "/body/spec/ipFamilies/*",
            "/body/spec/ipFamilyPolicy",
        ],
    },
    Accepted {
        about: "service-addresses",
        requests: &["a service becomes headless"],
        places: &["/code"],
    },
    Accepted {
        about: "service-addresses",
        requests: &["table: services"],
        places: &["/body/rows/*/cells/*"],
    },
    Accepted {
        about: "definitions",
        requests: &[
            "define a kind with a field without a type",
            "custom: an object that is none",
        ],
        places: &["/code"],
    },
    // It is served from the first moment.
    Accepted {
        about: "definitions",
        requests: &["define a kind"],
        places: &["/body/status/*"],
    },
    Accepted {
        about: "rare-requests",
        requests: &[
            "a field twice, strictly",
            "a lease is made by writing",
            "list with greater labels",
            "what nobody can make",
            "initial events without what they need",
            "watch one in the old way",
            "the log of a pod without a node",
            "table: with objects of no kind",
        ],
        places: &["/code"],
    },
    Accepted {
        about: "status-metadata",
        requests: &[
            "the status takes no spec",
            "the rest takes no status",
            "pods on a node",
            "pods in a phase",
            "a pod is deleted dry",
            "a pod is asked to end",
            "a pod is asked again to end",
            "a pod that ends",
            "a pod is ended",
            "pods by age, some of which end",
        ],
        places: &[
            "/body/metadata/labels/through",
            "/body/items/*/metadata/labels/through",
            "/body/rows/*/object/metadata/labels/through",
        ],
    },
    Accepted {
        about: "small-fields",
        requests: &["make with what the server sets"],
        places: &["/body/metadata/generation"],
    },
    Accepted {
        about: "small-fields",
        requests: &["the taints of a node", "the status of a node"],
        places: &["/body/status", "/body/status/daemonEndpoints"],
    },
    Accepted {
        about: "small-fields",
        requests: &["the scale of a StatefulSet"],
        places: &["/body/spec"],
    },
    Accepted {
        about: "deletion-answers",
        requests: &[
            "a pod that never began goes at once",
            "a definition goes",
            "a volume goes",
            "a class goes",
            "a claim goes",
        ],
        places: &["/body/**"],
    },
    Accepted {
        about: "tables",
        requests: &["table: *"],
        places: &["/body/columnDefinitions/*/description"],
    },
    Accepted {
        about: "tables",
        requests: &["pods by age, some of which end"],
        places: &["/body/columnDefinitions/*/description"],
    },
    Accepted {
        about: "tables",
        requests: &["watch a table"],
        places: &[
            "/body/*/object/columnDefinitions",
            "/body/*/object/columnDefinitions/*/description",
        ],
    },
];
