FROM scratch
LABEL grüße="日本語 🎉" x=${名前}
RUN echo "日本 \
  🎉"
