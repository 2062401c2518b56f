//! The settings of a run that nobody changes, because the trainer needs them as they are.

use serde_json::{Map, Value, json};

/// Returns the locked settings of the environment.
pub(super) fn environment() -> Map<String, Value> {
    let settings = json!({
        "tokenizer_name": "Qwen/Qwen3-8B",
        "rollout_server_url": "http://localhost:8000",
        "use_wandb": true,
        "max_token_length": 8192,
        "max_num_workers": 2048,
        "worker_timeout": 3600,
        "total_steps": 2500,
        "steps_per_eval": 25,
        "max_batches_offpolicy": 3,
        "inference_weight": 1.0,
        "eval_limit_ratio": 0.1,
    });
    settings.as_object().cloned().unwrap_or_default()
}

/// Returns the configuration of a run.
pub(super) fn run_config(changes: &Map<String, Value>, project: &str, name: &str) -> Value {
    let mut env = environment();
    for (key, value) in changes {
        if !value.is_null() && value != &json!("") {
            env.insert(key.clone(), value.clone());
        }
    }
    json!({
        "env": env,
        "openai": [{
            "model_name": "Qwen/Qwen3-8B",
            "base_url": "http://localhost:8001/v1",
            "api_key": "x",
            "weight": 1.0,
            "num_requests_for_eval": 256,
            "timeout": 3600,
            "server_type": "sglang",
        }],
        "tinker": {
            "lora_rank": 32,
            "learning_rate": 0.00004,
            "max_token_trainer_length": 9000,
            "checkpoint_dir": "./temp/",
            "save_checkpoint_interval": 25,
            "wandb_project": project,
            "wandb_run_name": name,
        },
        "slurm": false,
        "testing": false,
    })
}
