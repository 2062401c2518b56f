"""Supervised fine-tuning with LoRA on JSON lines with `messages` (or `prompt` and `completion`)."""
import argparse

from datasets import load_dataset
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--eval-data")
    parser.add_argument("--output", required=True)
    parser.add_argument("--learning-rate", type=float, default=2e-4)
    parser.add_argument("--epochs", type=float, default=2)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--accumulation", type=int, default=8)
    parser.add_argument("--max-length", type=int, default=2048)
    parser.add_argument("--max-steps", type=int, default=-1)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--assistant-only", action="store_true", help="loss only on answers; the chat template must support it")
    parser.add_argument("--cpu", action="store_true", help="for a smoke test with a tiny model")
    parser.add_argument("--report-to", default="none", help="wandb, tensorboard, trackio or none")
    arguments = parser.parse_args()

    files = {"train": arguments.data}
    if arguments.eval_data:
        files["eval"] = arguments.eval_data
    data = load_dataset("json", data_files=files)
    config = SFTConfig(
        output_dir=arguments.output,
        learning_rate=arguments.learning_rate,
        lr_scheduler_type="cosine",
        warmup_steps=10,
        num_train_epochs=arguments.epochs,
        max_steps=arguments.max_steps,
        per_device_train_batch_size=arguments.batch,
        gradient_accumulation_steps=arguments.accumulation,
        gradient_checkpointing=True,
        max_length=arguments.max_length,
        assistant_only_loss=arguments.assistant_only,
        bf16=not arguments.cpu,
        use_cpu=arguments.cpu,
        eval_strategy="steps" if arguments.eval_data else "no",
        eval_steps=50,
        logging_steps=5,
        save_steps=200,
        save_total_limit=2,
        seed=1,
        report_to=arguments.report_to,
    )
    trainer = SFTTrainer(
        model=arguments.model,
        args=config,
        train_dataset=data["train"],
        eval_dataset=data.get("eval"),
        peft_config=LoraConfig(r=arguments.rank, lora_alpha=2 * arguments.rank, target_modules="all-linear", task_type="CAUSAL_LM"),
    )
    trainer.train()
    trainer.save_model(arguments.output)
    trainer.processing_class.save_pretrained(arguments.output)


if __name__ == "__main__":
    main()
